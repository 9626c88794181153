#include "telar/runtime/pipeline_exchanges.h"

#include <algorithm>
#include <map>

namespace telar {

PipelineExchanges::PipelineExchanges(const Program& program, const SampleInputs& inputs) {
  if (program.micro_batches == 0) return;
  const int end = program.first_worker + static_cast<int>(program.workers.size());
  std::map<size_t, size_t> known;  // index of each pipeline, by its number
  for (size_t w = 0; w < program.workers.size(); ++w) {
    const size_t pipeline = pipeline_of(program, program.first_worker + static_cast<int>(w));
    const auto [index, fresh] = known.emplace(pipeline, pipelines_.size());
    pipeline_of_worker_.push_back(index->second);
    if (!fresh) continue;
    const std::vector<int> stages = stages_of(program, w);
    const auto stages_before = [&](int worker) {
      return static_cast<size_t>(std::ranges::lower_bound(stages, worker) - stages.begin());
    };
    const StagesHere here{stages_before(program.first_worker), stages_before(end), stages.size()};
    pipelines_.push_back(std::make_unique<PipelineExchange>(here, program.parameters.size(), inputs));
  }
}

PipelineExchange* PipelineExchanges::of(size_t worker) {
  return pipelines_.empty() ? nullptr : pipelines_[pipeline_of_worker_[worker]].get();
}

void PipelineExchanges::stop() {
  for (const auto& pipeline : pipelines_)
    for (StageExchange* exchange : {&pipeline->gradient, &pipeline->evaluation, &pipeline->prediction})
      exchange->stop();
}

void PipelineExchanges::reset() {
  for (const auto& pipeline : pipelines_)
    for (StageExchange* exchange : {&pipeline->gradient, &pipeline->evaluation, &pipeline->prediction})
      exchange->reset();
}

}  // namespace telar
