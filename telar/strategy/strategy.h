#pragma once

#include <memory>
#include <string>
#include <vector>

#include "telar/graph/program.h"

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
};

/// "single", "mirrored" or "pipeline". Throws Error (user) for another name, with the nearest.
std::unique_ptr<Strategy> make_strategy(const std::string& name, const StrategyOptions& options);
std::vector<std::string> strategy_names();

/// One device computes the whole batch.
std::unique_ptr<Strategy> make_single();

/// Synchronous data parallelism: each replica computes the gradient sum of its part of the batch; the sums are reduced
/// bucket by bucket while backward goes on; each replica updates its shard of the parameters, which all share.
/// The mean is over all samples, hence exact for unequal and empty parts.
std::unique_ptr<Strategy> make_mirrored(const StrategyOptions& options);

/// Model parallelism in time: the layers are cut into stages, one for each device, and the batch into micro-batches, which
/// follow each other through the stages, one forward, one backward (Narayanan et al., 2021). Gradients are summed over the
/// micro-batches, each stage updates its own parameters once in a step. The gradient is that of the whole batch, apart from
/// batch normalisation, which has the statistics of each micro-batch; its running averages are those of mirrored with as many
/// replicas as micro-batches.
std::unique_ptr<Strategy> make_pipeline(const StrategyOptions& options);
/// How many micro-batches these options mean.
int64_t micro_batches_of(const StrategyOptions& options, int64_t stages);

}  // namespace telar
