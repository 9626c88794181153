#include "telar/device/cuda/updater.h"

#include <algorithm>
#include <numeric>

#include "telar/core/error.h"
#include "telar/device/cuda/check.h"
#include "telar/device/cuda/loops/optimizer.h"

namespace telar::cuda {

namespace {

/// The intersection of [begin, end) with a section; empty when begin >= end.
struct Part {
  size_t begin, end;
  bool empty() const { return begin >= end; }
  int64_t floats() const { return static_cast<int64_t>((end - begin) / sizeof(float)); }
};

Part part_of(const UpdateSection& section, size_t begin, size_t end) {
  constexpr size_t kVector = 16;
  if (begin % kVector != 0 || end % kVector != 0) {
    throw run_error("a GPU can only update ranges that begin and end at multiples of {} bytes, not {} to {}",
                    kVector, begin, end);
  }
  return {std::max(begin, section.begin), std::min(end, section.end)};
}

const float* gradients_of(const UpdateBindings& bindings, size_t begin) {
  return reinterpret_cast<const float*>(bindings.gradients + (begin - bindings.gradients_begin));
}

UpdateMemory memory_of(const UpdateSection& section, const UpdateBindings& bindings, float mark,
                       const Part& part) {
  UpdateMemory memory;
  memory.parameters = reinterpret_cast<float*>(bindings.parameters + part.begin);
  memory.gradients = gradients_of(bindings, part.begin);
  for (size_t i = 0; i < section.states.size(); ++i)
    memory.states[i] =
        reinterpret_cast<float*>(bindings.states[section.states[i]] + (part.begin - bindings.states_begin));
  memory.count = part.floats();
  memory.loss = bindings.loss;
  memory.non_finite = bindings.non_finite;
  memory.mark = mark;
  return memory;
}

}  // namespace

CudaUpdater::CudaUpdater(const Graph& update, const ArenaLayout& arena, std::shared_ptr<Gpu> gpu)
    : gpu_(std::move(gpu)), plan_(sections_of(update, arena)) {
  gpu_->use();
  non_finite_ = DeviceMemory(*gpu_, sizeof(float), "an update");
  if (clips())
    squares_ = DeviceMemory(
        *gpu_, (static_cast<size_t>(kSquarePieces) + plan_.sections.size()) * sizeof(double), "an update");
}

CudaUpdater::~CudaUpdater() { gpu_->wait_at_last(); }

double CudaUpdater::sum_of_squares(const UpdateBindings& bindings, size_t begin, size_t end) const {
  if (!clips()) return 0;
  gpu_->use();
  auto* pieces = reinterpret_cast<double*>(squares_.data());
  double* sums = pieces + kSquarePieces;
  std::vector<double> found;
  for (const UpdateSection& section : plan_.sections) {
    const Part part = part_of(section, begin, end);
    if (!section.clipped || part.empty()) continue;
    check(sum_squares(gradients_of(bindings, part.begin), part.floats(), pieces, sums + found.size(),
                      gpu_->stream()),
          "summing squares of gradients");
    found.push_back(0);
  }
  if (found.empty()) return 0;
  gpu_->copy_out(reinterpret_cast<const std::byte*>(sums), std::as_writable_bytes(std::span(found)));
  return std::accumulate(found.begin(), found.end(), 0.0);
}

void CudaUpdater::enqueue(const UpdateBindings& bindings, const UpdateScalars& scalars, double sum_of_squares,
                          size_t begin, size_t end) const {
  constexpr int64_t kMarks = 1 << 20;  // far more than the number of steps in flight; exact in f32
  const auto mark = static_cast<float>(1 + static_cast<int64_t>(scalars.step) % kMarks);
  const float clip = clip_factor_of(plan_.max_norm, sum_of_squares, scalars.samples);
  for (const UpdateSection& section : plan_.sections) {
    const Part part = part_of(section, begin, end);
    if (part.empty()) continue;
    const UpdateRule rule = rule_of(section, scalars, (section.clipped ? clip : 1.0F) / scalars.samples);
    const UpdateMemory memory = memory_of(section, bindings, mark, part);
    check(std::visit([&](const auto& known) { return update(known, memory, gpu_->stream()); }, rule),
          "an update");
  }
}

bool CudaUpdater::apply(const UpdateBindings& bindings, const UpdateScalars& scalars, double sum_of_squares,
                        size_t begin, size_t end) const {
  gpu_->use();
  if (bindings.non_finite != nullptr) {
    enqueue(bindings, scalars, sum_of_squares, begin, end);
    return true;
  }
  UpdateBindings own = bindings;
  own.non_finite = reinterpret_cast<float*>(non_finite_.data());
  check(cudaMemsetAsync(own.non_finite, 0, sizeof(float), gpu_->stream()), "clearing the non-finite flag");
  enqueue(own, scalars, sum_of_squares, begin, end);
  float non_finite = 0;
  gpu_->copy_out(non_finite_.data(), std::as_writable_bytes(std::span(&non_finite, 1)));
  return non_finite == 0;
}

}  // namespace telar::cuda
