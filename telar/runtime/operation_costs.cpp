#include "telar/runtime/operation_costs.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "telar/core/random.h"
#include "telar/runtime/session.h"

namespace telar {

namespace {

constexpr uint64_t kSeed = 7;
const std::string kReorder = " (reorder)";

/// Samples of the step's types: noise, and 0 for what is an integer (a class, a token).
struct RandomBatch {
  RandomBatch(const Graph& gradient, int64_t size) : samples(static_cast<size_t>(size)) {
    std::iota(samples.begin(), samples.end(), 0);
    x = values_of(gradient, "x", size);
    label = values_of(gradient, "label", size);
  }
  BatchView view() const {
    return {static_cast<int64_t>(samples.size()), x.data(), label.data(), samples.data()};
  }

  static std::vector<float> values_of(const Graph& graph, const std::string& input, int64_t size) {
    const TensorType& type = graph.value(graph.find(ValueKind::input, input)).type;
    std::vector<float> values(static_cast<size_t>(size * type.shape.elements_per_item()),
                              0.0F);  // i32 0, too
    RandomSequence random(kSeed, 1);
    for (float& value : values) value = type.dtype == DType::f32 ? random.normal() : value;
    return values;
  }

  std::vector<float> x;
  std::vector<float> label;
  std::vector<int32_t> samples;
};

/// Seconds by layer and operation, the least of several runs; what reorders cost beside it under the operation's name
/// with " (reorder)".
std::map<std::pair<std::string, std::string>, double> profile(Session& session, const Graph& gradient,
                                                              int64_t batch) {
  constexpr int kRuns = 4;  // the first of which compiles
  const RandomBatch samples(gradient, batch);
  std::map<std::pair<std::string, std::string>, double> least;
  for (int run = 0; run < kRuns; ++run) {
    std::map<std::pair<std::string, std::string>, double> seconds;
    for (const OperationTime& time : session.profile(samples.view(), {.learning_rate = 0, .step = 1}))
      seconds[{time.scope, time.op}] += time.seconds;
    for (const auto& [key, time] : seconds) {
      const auto [known, fresh] = least.emplace(key, time);
      if (!fresh) known->second = std::min(known->second, time);
    }
  }
  return least;
}

}  // namespace

std::vector<OperationCost> measure_costs(const TrainingStep& step, const DeviceSpec& device,
                                         int64_t micro_batches) {
  const int64_t batch = step.gradient.batch();
  const int64_t micro_batch = (batch + micro_batches - 1) / micro_batches;
  const Cluster cluster{{device}};
  Session session(make_single()->rewrite(step, cluster), cluster, {.seed = kSeed});
  std::map<std::pair<std::string, std::string>, OperationCost> costs;
  const auto cost_of = [&](const std::pair<std::string, std::string>& key) -> OperationCost& {
    const std::string op = key.second.substr(0, key.second.find(kReorder));
    return costs.emplace(std::pair(key.first, op), OperationCost{key.first, op}).first->second;
  };
  for (const auto& [key, seconds] : profile(session, step.gradient, batch)) cost_of(key).batch += seconds;
  for (const auto& [key, seconds] : profile(session, step.gradient, micro_batch)) {
    // Weights are brought into another layout once in a step.
    const bool once = key.second.ends_with(kReorder);
    cost_of(key).micro_batches += once ? seconds : seconds * static_cast<double>(micro_batches);
  }
  std::vector<OperationCost> all;
  for (const auto& entry : costs) all.push_back(entry.second);
  return all;
}

}  // namespace telar
