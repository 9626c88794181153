#include "telar/runtime/pipeline_exchanges.h"

#include <algorithm>
#include <map>
#include <utility>

namespace telar {

PipelineExchanges::PipelineExchanges(const Program& program, int64_t process, const SampleInputs& inputs) {
  if (program.micro_batches == 0) return;
  const Mesh& mesh = program.mesh;
  const int64_t first = mesh.first_of(process);
  std::map<int64_t, std::pair<size_t, StagesHere>> known;  // index and stages of each pipeline
  for (int64_t w = first; w < first + mesh.of_process(); ++w) {
    const auto stage = static_cast<size_t>(mesh.coordinate(w, kStageAxis));
    const StagesHere here{stage, stage + 1, static_cast<size_t>(mesh.size(kStageAxis))};
    auto& [index, stages] = known.emplace(share_of(program, w), std::pair(known.size(), here)).first->second;
    stages.begin = std::min(stages.begin, stage);
    stages.end = std::max(stages.end, stage + 1);
    pipeline_of_worker_.push_back(index);
  }
  pipelines_.resize(known.size());
  for (const auto& [pipeline, found] : known)
    pipelines_[found.first] = std::make_unique<PipelineExchange>(found.second, inputs);
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
