#include "telar/strategy/strategy.h"

#include <algorithm>
#include <tuple>

#include "telar/core/error.h"
#include "telar/core/suggest.h"
#include "telar/graph/ops/batch_norm.h"
#include "telar/strategy/buckets.h"
#include "telar/strategy/pieces.h"
#include "telar/strategy/strategy_like.h"

namespace telar {

/// Generated from the names of the files in strategies/ (cmake/Registry.cmake).
void register_all(StrategyRegistry& registry);

void StrategyRegistry::sort() {
  std::ranges::sort(types_, {}, [](const StrategyType& type) {
    return std::tuple(type.uses_servers, !type.count.empty(), !type.shares_batches, type.of_all_processes,
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

const StrategyType& sequential_type() { return strategy_types().front(); }

const StrategyType& data_parallel_type() {
  return *std::ranges::find_if(strategy_types(), &StrategyType::shares_batches);
}

std::unique_ptr<Strategy> make_strategy(const std::string& name, const Attributes& options) {
  const StrategyType& type = strategy_type(name);
  return type.make(completed("strategy '" + name + "'", type.options, options));
}

int64_t worker_count(const StrategyType& type, const Attributes& options) {
  int64_t count = type.count.empty() ? 1 : options.integer(type.count);
  for (const std::string& factor : type.times) count *= options.integer(factor);
  return count;
}

Cooperation cooperation_of(const StrategyType& type, const Attributes& options) {
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
  program.workers.push_back({0, step.gradient, {action::compute_gradient(), action::update_shard()}});
  share_memory(program);
  return program;
}

}  // namespace telar
