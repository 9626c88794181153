#include "telar/strategy/worker_grid.h"

namespace telar {

namespace {

/// Layers are divided among all workers (Shoeybi et al., "Megatron-LM", 2019); the other layers are data
/// parallel.
class Tensor final : public Strategy {
 public:
  explicit Tensor(Attributes options) : options_(std::move(options)) {}

  Program rewrite(const TrainingStep& step, const Cluster& cluster,
                  const std::vector<OperationCost>& /*costs*/) const override {
    return grid_program("tensor", step, cluster, {.data = 1, .model = options_.integer("ways")}, options_);
  }

 private:
  Attributes options_;
};

}  // namespace

void register_tensor(StrategyRegistry& registry) {
  StrategyType type;
  type.name = "tensor";
  type.summary = "layers with many weights are divided among the workers, which have a share of every batch";
  type.worker = "worker";
  type.count = "ways";
  type.of_all_processes = true;
  type.divides_state = true;
  type.on_gpus = false;
  type.options = {{.name = "ways",
                   .fallback = int64_t{2},
                   .rule = {.least = 2, .most = 1024},
                   .help = "Number of workers, in all processes together, among which a layer is divided."}};
  for (Option& option : division_options()) type.options.push_back(std::move(option));
  type.make = [](const Attributes& options) { return std::make_unique<Tensor>(options); };
  type.check = [](const Attributes& options, int) { check_division(options); };
  registry.add(std::move(type));
}

}  // namespace telar
