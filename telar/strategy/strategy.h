#pragma once

#include <memory>
#include <string>
#include <vector>

#include "telar/graph/program.h"
#include "telar/strategy/placement.h"

namespace telar {

/// Rewrites a sequential training step as a parallel program: a pure function of the step and the cluster.
/// Lower and higher floors do not know which strategy is in use.
class Strategy {
 public:
  virtual ~Strategy() = default;
  virtual std::string name() const = 0;
  virtual Program rewrite(const TrainingStep& step, const Cluster& cluster) const = 0;
};

/// The samples over which batch normalisation takes its statistics in data parallel.
enum class BatchNormMode : uint8_t {
  local,        ///< statistics of each replica's part; running averages are means over the replicas
  synchronised  ///< statistics of the whole batch, as on one device
};

/// Seconds that all operations of one kind in one layer take per step.
struct OperationCost {
  std::string scope;         ///< "layer1.0.conv1"
  std::string op;            ///< "conv2d_backward_data"
  double batch = 0;          ///< once, for the whole batch
  double micro_batches = 0;  ///< for all micro-batches, one after the other
};

struct StrategyOptions {
  size_t bucket_bytes = size_t{4} << 20;  ///< minimum size of a bucket of gradients
  BatchNormMode batch_norm = BatchNormMode::local;
  int64_t micro_batches = 0;         ///< of a pipeline; 0: four per stage
  std::vector<OperationCost> costs;  ///< measurements to balance a pipeline's stages; empty: estimates
  Placer place = place_greedy;       ///< placement of variables on parameter servers
  int64_t push_every = 1;            ///< in steps; downpour's n_push
  int64_t fetch_every = 1;           ///< in steps; downpour's n_fetch
  int64_t average_every = 10;        ///< in steps; parameter_averaging's k
  /// of parameter_averaging's step towards the mean; 1 without momentum gives the mean itself
  double outer_learning_rate = 1;
  double outer_momentum = 0;
  bool outer_nesterov = false;
};

/// The strategy with this name. Throws Error (user), with the nearest name, when there is none.
std::unique_ptr<Strategy> make_strategy(const std::string& name, const StrategyOptions& options);
std::vector<std::string> strategy_names();
/// The strategies that need parameter servers.
std::vector<std::string> server_strategy_names();

/// One device computes the whole batch.
std::unique_ptr<Strategy> make_single();

/// Synchronous data parallelism. Each replica computes the gradient sum of its part of the batch. The sums
/// are reduced bucket by bucket while backward continues. Each replica then updates its shard of the
/// parameters, which all replicas share. The mean is taken over all samples, so it is exact for unequal and
/// empty parts.
std::unique_ptr<Strategy> make_mirrored(const StrategyOptions& options);

/// Pipeline parallelism. The layers are cut into stages, one per device, and the batch into micro-batches,
/// which pass through the stages one after another: one forward, one backward (Narayanan et al., 2021).
/// Gradients are summed over the micro-batches, and each stage updates an equal part of all parameters once
/// per step. The gradient is that of the whole batch, except that batch normalisation uses the statistics of
/// each micro-batch. Its running averages equal those of mirrored with one replica per micro-batch.
std::unique_ptr<Strategy> make_pipeline(const StrategyOptions& options);
/// The number of micro-batches that these options specify.
int64_t micro_batches_of(const StrategyOptions& options, int64_t stages);

/// Asynchronous SGD on parameter servers. A worker computes the gradient g of a batch with its current
/// parameters. The servers apply their optimizer to it on arrival, p ← update(p, ĝ), and the worker fetches
/// the result. The updates by other workers since its last pull are the staleness of the gradient (Dean et
/// al., Large Scale Distributed Deep Networks, 2012; Recht et al., Hogwild, 2011).
std::unique_ptr<Strategy> make_async_sgd(const StrategyOptions& options);

/// Downpour SGD (Dean et al., 2012, section 4.1 and appendix). In each step the worker alone does
/// p ← p − lr·ĝ (if fetch_every > 1). Every push_every steps it sends the accrued gradients, the sum of the
/// batches' means, to the servers, whose optimizer applies them on arrival. Every fetch_every steps it
/// fetches the servers' parameters.
std::unique_ptr<Strategy> make_downpour(const StrategyOptions& options);

/// Synchronous training on parameter servers. The gradient sums of n workers, each for its part of the batch,
/// are added in a fixed order and applied once; the result equals that of one process. With backup workers,
/// the first n sums count (Chen et al., Revisiting Distributed Synchronous SGD, 2016).
std::unique_ptr<Strategy> make_sync_ps(const StrategyOptions& options);

/// Each worker trains independently, with its own optimizer. Every k steps the servers' parameters x move
/// towards the mean of the workers' xᵢ, each weighted by its number of samples: Δ = Σ nᵢ(x − xᵢ)/Σ nᵢ, then
/// SGD on Δ: m ← μm + Δ, x ← x − lr·m. With lr 1 and μ 0, x is the mean (McMahan et al., FedAvg, 2017; Stich,
/// Local SGD, 2019). Otherwise Δ is the pseudo-gradient of an outer SGD or Nesterov step (Reddi et al.,
/// Adaptive Federated Optimization, 2021; Douillard et al., DiLoCo, 2023).
std::unique_ptr<Strategy> make_parameter_averaging(const StrategyOptions& options);

}  // namespace telar
