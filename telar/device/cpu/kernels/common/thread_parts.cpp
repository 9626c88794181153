#include "telar/device/cpu/kernels/common/thread_parts.h"

#include <omp.h>

namespace telar::cpu {

ForOneThread::ForOneThread() : threads_(omp_get_max_threads()) { omp_set_num_threads(1); }
ForOneThread::~ForOneThread() { omp_set_num_threads(threads_); }

void ThreadParts::add_part(const dnnl::primitive& primitive, Arguments arguments, const Desc& scratchpad) {
  if (scratchpad.get_size() > 0) arguments.emplace_back(DNNL_ARG_SCRATCHPAD, lowering_.temporary(scratchpad));
  std::erase_if(arguments, [](const auto& argument) { return argument.second < 0; });
  parts_.push_back({primitive, std::move(arguments)});
}

void ThreadParts::lower(const Around& around) {
  std::vector<RegionId> reads = around.reads;
  std::vector<RegionId> writes = around.writes;
  for (const Part& part : parts_)
    for (const auto& [name, region] : part.arguments) (is_written(name) ? writes : reads).push_back(region);
  const size_t first_written = reads.size();
  size_t next_read = around.reads.size();
  size_t next_written = first_written + around.writes.size();
  Target::Work work;
  for (const Part& part : parts_) {
    Target::PartOfWork& call = work.parts.emplace_back(Target::PartOfWork{part.primitive, {}});
    for (const auto& [name, region] : part.arguments)
      call.arguments.emplace_back(name, is_written(name) ? next_written++ : next_read++);
  }
  if (around.before)
    work.before = [before = around.before, first_written](const Pointers& pointers, size_t part) {
      before(pointers, pointers.from(first_written), part);
    };
  if (around.after)
    work.function = [after = around.after, first_written](const Pointers& pointers) {
      after(pointers, pointers.from(first_written));
    };
  lowering_.parts(reads, writes, std::move(work));
}

}  // namespace telar::cpu
