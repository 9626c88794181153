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

struct StrategyOptions {
  size_t bucket_bytes = size_t{4} << 20;  ///< gradients exchanged together, at least this many bytes
  BatchNormMode batch_norm = BatchNormMode::local;
};

/// "single" or "mirrored". Throws Error (user) for another name, with the nearest.
std::unique_ptr<Strategy> make_strategy(const std::string& name, const StrategyOptions& options);
std::vector<std::string> strategy_names();

/// One device computes the whole batch.
std::unique_ptr<Strategy> make_single();

/// Synchronous data parallelism: each replica computes the gradient sum of its part of the batch; the sums are reduced
/// bucket by bucket while backward goes on; each replica updates its shard of the parameters, which all share.
/// The mean is over all samples, hence exact for unequal and empty parts.
std::unique_ptr<Strategy> make_mirrored(const StrategyOptions& options);

}  // namespace telar
