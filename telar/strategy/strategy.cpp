#include "telar/strategy/strategy.h"

#include <algorithm>
#include <tuple>

#include "telar/core/error.h"
#include "telar/core/suggest.h"
#include "telar/graph/ops/batch_norm.h"
#include "telar/strategy/buckets.h"
#include "telar/strategy/pieces.h"
#include "telar/strategy/strategy_like.h"
#include "telar/strategy/verify.h"

namespace telar {

/// Generated from the names of the files in strategies/ (cmake/Registry.cmake).
void register_all(StrategyRegistry& registry);

void StrategyRegistry::sort() {
  std::ranges::sort(types_, {}, [](const StrategyType& type) {
    const Workers workers = usual_workers(type);
    return std::tuple(type.uses_servers, !type.count.empty(), !workers.unequal, workers.of_all_processes,
                      type.name);
  });
}

const std::vector<StrategyType>& strategy_types() {
  static const StrategyRegistry registry = [] {
    StrategyRegistry all;
    register_all(all);
    all.sort();
    return all;
  }();
  return registry.types();
}

std::vector<std::string> strategy_names(const std::function<bool(const StrategyType&)>& has) {
  std::vector<std::string> names;
  for (const StrategyType& type : strategy_types())
    if (!has || has(type)) names.push_back(type.name);
  return names;
}

const StrategyType& strategy_type(const std::string& name) {
  for (const StrategyType& type : strategy_types())
    if (type.name == name) return type;
  const std::string near = strategy_like(name);
  throw user_error("unknown strategy '{}'; {}the strategies are {}", name,
                   near.empty() ? "" : "did you mean '" + near + "'? ", one_of(strategy_names()));
}

const StrategyType& sequential_type() { return strategy_type("single"); }
const StrategyType& data_parallel_type() { return strategy_type("mirrored"); }

Strategy make_strategy(const std::string& name, const Attributes& options) {
  const StrategyType& type = strategy_type(name);
  Strategy strategy{type, completed("strategy '" + name + "'", type.options, options)};
  if (type.check) type.check(strategy.options, 0);
  return strategy;
}

Workers usual_workers(const StrategyType& type) {
  return Strategy{type, completed("strategy '" + type.name + "'", type.options, {})}.workers();
}

Program Strategy::rewrite(const TrainingStep& step, const Cluster& cluster,
                          const std::vector<OperationCost>& costs) const {
  Program program = type.rewrite(step, cluster, options, costs);
  program.cooperation = cooperation();
  verify(program);
  return program;
}

int64_t Strategy::measured_micro_batches(const TrainingStep& step, const Cluster& cluster) const {
  return type.measured_micro_batches ? type.measured_micro_batches(step, cluster, options) : 0;
}

Workers Strategy::workers() const { return type.workers ? type.workers(options) : Workers{}; }

Cooperation Strategy::cooperation() const {
  return type.cooperation ? type.cooperation(options) : Cooperation{};
}

Program program_of(const TrainingStep& step, const std::string& strategy) {
  Program program;
  program.strategy = strategy;
  program.update = step.update;
  program.evaluation = step.evaluation;
  program.prediction = step.prediction;
  program.parameters = in_gradient_order(step);
  program.metrics = step.metrics;
  program.least.layer = layer_with_vector_norm(step.gradient);
  if (!program.least.layer.empty()) program.least.batch = program.least.part = 2;
  return program;
}

Program sequential_program(const TrainingStep& step) {
  Program program = program_of(step, "single");
  program.kinds.push_back({step.gradient, {action::compute_gradient(), action::update_shard()}});
  share_memory(program);
  return program;
}

}  // namespace telar
