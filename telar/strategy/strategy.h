#pragma once

#include <memory>
#include <string>
#include <vector>

#include "telar/graph/program.h"
#include "telar/strategy/placement.h"

namespace telar {

/// A rewrite of one sequential training step into a parallel program: a pure function of the step and the cluster. What
/// lies above and below does not know which strategy is in use.
class Strategy {
 public:
  virtual ~Strategy() = default;
  virtual std::string name() const = 0;
  virtual Program rewrite(const TrainingStep& step, const Cluster& cluster) const = 0;
};

/// How batch normalisation sees the batch in data parallel.
enum class BatchNormMode : uint8_t {
  local,        ///< statistics of each replica's part; running averages are means over the replicas
  synchronised  ///< statistics of the whole batch: equal to one device
};

/// Seconds that the operations of one kind in one layer take in one step.
struct OperationCost {
  std::string scope;         ///< "layer1.0.conv1"
  std::string op;            ///< "conv2d_backward_data"
  double batch = 0;          ///< over the whole batch at once
  double micro_batches = 0;  ///< over all micro-batches, one after the other
};

struct StrategyOptions {
  size_t bucket_bytes = size_t{4} << 20;  ///< gradients exchanged together, at least this many bytes
  BatchNormMode batch_norm = BatchNormMode::local;
  int64_t micro_batches = 0;         ///< of a pipeline; 0: four for each stage
  std::vector<OperationCost> costs;  ///< by which a pipeline's stages are balanced; empty: estimated
  Placer place = place_greedy;       ///< of variables on parameter servers
  int64_t push_every = 1;            ///< steps; downpour's n_push
  int64_t fetch_every = 1;           ///< steps; downpour's n_fetch
  int64_t average_every = 10;        ///< steps; parameter_averaging's k
  double outer_learning_rate =
      1;  ///< of parameter_averaging's step towards the mean; 1 without momentum is the mean itself
  double outer_momentum = 0;
  bool outer_nesterov = false;
};

/// By its name. Throws Error (user) for one that there is not, with the nearest.
std::unique_ptr<Strategy> make_strategy(const std::string& name, const StrategyOptions& options);
std::vector<std::string> strategy_names();
/// Of those the ones that need parameter servers.
std::vector<std::string> server_strategy_names();

/// One device computes the whole batch.
std::unique_ptr<Strategy> make_single();

/// Synchronous data parallelism: each replica computes the gradient sum of its part of the batch; the sums are reduced
/// bucket by bucket while backward goes on; each replica updates its shard of the parameters, which all share.
/// The mean is over all samples, hence exact for unequal and empty parts.
std::unique_ptr<Strategy> make_mirrored(const StrategyOptions& options);

/// Model parallelism in time: the layers are cut into stages, one for each device, and the batch into micro-batches, which
/// follow each other through the stages, one forward, one backward (Narayanan et al., 2021). Gradients are summed over the
/// micro-batches, and each stage updates an equal part of all parameters once in a step. The gradient is that of the whole batch, apart from
/// batch normalisation, which has the statistics of each micro-batch; its running averages are those of mirrored with as many
/// replicas as micro-batches.
std::unique_ptr<Strategy> make_pipeline(const StrategyOptions& options);
/// How many micro-batches these options mean.
int64_t micro_batches_of(const StrategyOptions& options, int64_t stages);

/// Asynchronous SGD on parameter servers: a worker computes the gradient g of a batch with the parameters that it has, the servers
/// apply their optimizer to it as it comes, p ← update(p, ĝ), and the worker takes the result. Other workers' updates since its last
/// pull are the gradient's staleness (Dean et al., Large Scale Distributed Deep Networks, 2012; Recht et al., Hogwild, 2011).
std::unique_ptr<Strategy> make_async_sgd(const StrategyOptions& options);

/// Downpour SGD (Dean et al., 2012, section 4.1 and appendix): in each step p ← p − lr·ĝ on the worker alone (when fetch_every > 1),
/// every push_every steps the accrued gradients, the sum of the batches' means, go to the servers, whose optimizer applies them as
/// they come, and every fetch_every steps the worker takes the servers' parameters.
std::unique_ptr<Strategy> make_downpour(const StrategyOptions& options);

/// Synchronous training on parameter servers: the gradient sums of n workers, each of its part of the batch, are added in a fixed order
/// and applied once; equal to one process. With backup workers the first n count (Chen et al., Revisiting Distributed
/// Synchronous SGD, 2016).
std::unique_ptr<Strategy> make_sync_ps(const StrategyOptions& options);

/// Each worker trains by itself, with its own optimizer; every k steps the servers' parameters x move towards the mean of the
/// workers' x_i, each weighted by the samples that it has seen: Δ = Σ nᵢ(x − xᵢ)/Σ nᵢ, then SGD on Δ: m ← μm + Δ, x ← x − lr·m. With lr
/// 1 and μ 0 x is the mean (McMahan et al., FedAvg, 2017; Stich, Local SGD, 2019); otherwise Δ is the pseudo-gradient of an outer SGD or
/// Nesterov step (Reddi et al., Adaptive Federated Optimization, 2021; Douillard et al., DiLoCo, 2023).
std::unique_ptr<Strategy> make_parameter_averaging(const StrategyOptions& options);

}  // namespace telar
