#include "telar/strategy/data_parallel.h"

#include "telar/core/error.h"
#include "telar/strategy/buckets.h"
#include "telar/strategy/pieces.h"
#include "telar/strategy/synchronise_batch_norm.h"

namespace telar {

Option replicas_option() {
  return {.name = "replicas",
          .fallback = int64_t{2},
          .rule = {.least = 1, .most = 1024},
          .help = "Number of replicas in each process."};
}

Workers data_parallel_workers(const Attributes& options) {
  const int64_t replicas = options.integer("replicas");
  return {.count = replicas, .shares = replicas, .unequal = true};
}

int64_t workers_of(const std::string& strategy, const Cluster& cluster) {
  const int64_t workers = static_cast<int64_t>(cluster.devices.size()) * cluster.processes;
  if (workers < 1) throw user_error("strategy '{}' needs at least 1 replica", strategy);
  return workers;
}

std::vector<ScheduledAction> data_parallel_schedule() {
  return {action::compute_gradient(), action::finish_exchange(), action::exchange_metrics(),
          action::exchange_norm(),    action::update_shard(),    action::wait_for_all()};
}

Program data_parallel_program(const std::string& strategy, const TrainingStep& step, const Cluster& cluster,
                              const Attributes& options) {
  const int64_t workers = workers_of(strategy, cluster);
  Program program = program_of(step, strategy);
  program.buckets = make_buckets(program.parameters, step.gradient, bucket_bytes(options));
  Graph gradient = step.gradient;
  if (synchronises_batch_norm(options)) {
    program.least.part = 1;
    gradient = synchronise_batch_norm(gradient, [&](const std::string&) {
      return std::optional<StatisticsGroup>({kAllWorkers, workers});
    });
  }
  gradient = insert_bucket_reductions(gradient, program.buckets);
  program.mesh = Mesh({{kDataAxis, workers}}, cluster.processes);
  program.kinds.push_back({gradient, data_parallel_schedule()});
  share_memory(program);
  return program;
}

}  // namespace telar
