#include "telar/runtime/pipeline_exchanges.h"

#include <algorithm>

namespace telar {

PipelineExchanges::PipelineExchanges(const Program& program, const SampleInputs& inputs) {
  if (program.micro_batches == 0) return;
  int end = 0;  // of the workers of the pipelines so far
  for (size_t w = 0; w < program.workers.size(); ++w) {
    const std::vector<int> stages = stages_of(program, w);
    const int number = program.first_worker + static_cast<int>(w);
    if (pipelines_.empty() || number >= end) {
      end = stages.back() + 1;
      const int last = std::min(end, program.first_worker + static_cast<int>(program.workers.size()));
      const StagesHere here{static_cast<size_t>(number - stages.front()),
                            static_cast<size_t>(last - stages.front()), stages.size()};
      pipelines_.push_back(std::make_unique<PipelineExchange>(here, program.parameters.size(), inputs));
    }
    pipeline_of_worker_.push_back(pipelines_.size() - 1);
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
