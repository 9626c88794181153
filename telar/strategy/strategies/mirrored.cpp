#include "telar/core/error.h"
#include "telar/strategy/buckets.h"
#include "telar/strategy/strategy.h"
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
class Mirrored final : public Strategy {
 public:
  explicit Mirrored(const Attributes& options)
      : bucket_bytes_(static_cast<size_t>(options.real("bucket_mb") * (1 << 20))),
        synchronised_(options.text("batch_norm") == "synchronised") {}

  Program rewrite(const TrainingStep& step, const Cluster& cluster,
                  const std::vector<OperationCost>& /*costs*/) const override {
    const auto local = static_cast<int>(cluster.devices.size());
    const int replicas = local * cluster.processes;
    if (replicas < 1) throw user_error("strategy 'mirrored' needs at least 1 replica");
    Program program = program_of(step, "mirrored");
    program.buckets = make_buckets(program.parameters, step.gradient, bucket_bytes_);
    Graph gradient = step.gradient;
    if (synchronised_) {
      gradient = synchronise_batch_norm(gradient, [&](const std::string&) {
        return std::optional<StatisticsGroup>({kAllWorkers, replicas});
      });
    }
    gradient = insert_bucket_reductions(gradient, program.buckets);
    for (int r = 0; r < local; ++r) {
      program.workers.push_back(
          {r,
           gradient,
           {action::compute_gradient(), action::finish_exchange(), action::exchange_metrics(),
            action::exchange_norm(), action::update_shard(), action::wait_for_all()}});
    }
    return program;
  }

 private:
  size_t bucket_bytes_;
  bool synchronised_;
};

}  // namespace

void register_mirrored(StrategyRegistry& registry) {
  registry.add(
      {.name = "mirrored",
       .summary = "replicas, each of which processes a share of every batch; they exchange gradients",
       .count = "replicas",
       .shares_batches = true,
       .options =
           {{.name = "replicas",
             .fallback = int64_t{2},
             .rule = {.least = 1, .most = 1024},
             .help = "Number of replicas in each process."},
            {.name = "batch_norm",
             .fallback = "local",
             .rule = {.choices = {"local", "synchronised"}},
             .help =
                 "local: statistics of each replica's share of the batch. synchronised: statistics of the whole batch, as on one device."},
            {.name = "bucket_mb",
             .fallback = 4.0,
             .rule = {.least = 0, .most = 65536, .above_least = true},
             .help = "Size of the buckets in which gradients are exchanged."}},
       .make = [](const Attributes& options) { return std::make_unique<Mirrored>(options); }});
}

}  // namespace telar
