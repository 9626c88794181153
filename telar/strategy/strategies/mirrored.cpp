#include "telar/strategy/buckets.h"
#include "telar/strategy/data_parallel.h"
#include "telar/strategy/synchronise_batch_norm.h"

namespace telar {

namespace {

/// Synchronous data parallelism. Each replica computes the gradient sum of its part of the batch. The sums
/// are reduced bucket by bucket while backward continues. Each replica then updates its shard of the
/// parameters, which all replicas share. The mean is taken over all samples, so it is exact for unequal and
/// empty parts.
///
/// Batch normalisation takes local statistics, of each replica's part (running averages are means over the
/// replicas), or synchronised ones, of the whole batch, as on one device.
Program mirrored_program(const TrainingStep& step, const Cluster& cluster, const Attributes& options,
                         const std::vector<OperationCost>& /*costs*/) {
  return data_parallel_program("mirrored", step, cluster, options);
}

}  // namespace

void register_mirrored(StrategyRegistry& registry) {
  registry.add(
      {.name = "mirrored",
       .summary = "replicas, each of which processes a share of every batch; they exchange gradients",
       .count = "replicas",
       .options = {replicas_option(), batch_norm_option(), bucket_option()},
       .workers = data_parallel_workers,
       .rewrite = mirrored_program});
}

}  // namespace telar
