#include "telar/strategy/worker_grid.h"

namespace telar {

namespace {

/// Groups of workers divide layers among themselves, and the groups are data parallel.
class Hybrid final : public Strategy {
 public:
  explicit Hybrid(Attributes options) : options_(std::move(options)) {}

  Program rewrite(const TrainingStep& step, const Cluster& cluster,
                  const std::vector<OperationCost>& /*costs*/) const override {
    return grid_program("hybrid", step, cluster,
                        {.data = options_.integer("data"), .model = options_.integer("model")}, options_);
  }

 private:
  Attributes options_;
};

}  // namespace

void register_hybrid(StrategyRegistry& registry) {
  StrategyType type;
  type.name = "hybrid";
  type.summary = "data parallel over groups of workers, each of which divides layers among its workers";
  type.worker = "worker";
  type.count = "data";
  type.times = {"model"};
  type.of_all_processes = true;
  type.divides_state = true;
  type.on_gpus = false;
  type.options = {{.name = "data",
                   .fallback = int64_t{2},
                   .rule = {.least = 1, .most = 1024},
                   .help = "Number of groups, in all processes together, that train on different samples."},
                  {.name = "model",
                   .fallback = int64_t{2},
                   .rule = {.least = 2, .most = 1024},
                   .help = "Number of workers of a group, among which a layer is divided."}};
  for (Option& option : division_options()) type.options.push_back(std::move(option));
  type.make = [](const Attributes& options) { return std::make_unique<Hybrid>(options); };
  type.check = [](const Attributes& options, int) { check_division(options); };
  registry.add(std::move(type));
}

}  // namespace telar
