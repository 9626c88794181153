#include "telar/strategy/buckets.h"
#include "telar/strategy/data_parallel.h"
#include "telar/strategy/pieces.h"
#include "telar/strategy/server_side.h"

namespace telar {

namespace {

/// Local SGD (Stich, Local SGD converges fast and communicates little, 2019), after a warm-up (Lin et al.,
/// Don't use large mini-batches, use local SGD, 2020). In the first steps gradients are summed, as by
/// `mirrored`. Then each worker trains on its share of every batch with an optimizer of its own, and every
/// few steps all take the mean of their parameters.
Program local_sgd_program(const TrainingStep& step, const Cluster& cluster, const Attributes& options,
                          const std::vector<OperationCost>& /*costs*/) {
  const int64_t workers = workers_of("local_sgd", cluster);
  Program program = program_of(step, "local_sgd");
  program.mesh = Mesh({{kDataAxis, workers}}, cluster.processes);
  program.buckets = make_buckets(program.parameters, step.gradient, bucket_bytes(options));
  WorkerProgram worker{insert_bucket_reductions(step.gradient, program.buckets), data_parallel_schedule(),
                       step.update, step.evaluation, step.prediction};
  worker.holdings = holdings_of(program);
  worker.later.push_back({options.integer("warmup_steps"),
                          step.gradient,
                          {action::compute_gradient(), action::exchange_norm(), action::update_shard(),
                           action::average_parameters(options.integer("average_every"))}});
  program.kinds.push_back(std::move(worker));
  return program;
}

/// Equal shares, because all parameters count alike in the mean.
Workers equal_workers(const Attributes& options) {
  const int64_t replicas = options.integer("replicas");
  return {.count = replicas, .shares = replicas, .states = replicas};
}

}  // namespace

void register_local_sgd(StrategyRegistry& registry) {
  registry.add({.name = "local_sgd",
                .summary = "replicas that train on their own and average their parameters every few steps",
                .count = "replicas",
                .options = {replicas_option(),
                            average_every_option(),
                            {.name = "warmup_steps",
                             .fallback = int64_t{0},
                             .rule = {.least = 0, .most = 1e9},
                             .help = "First steps of the job, in which gradients are summed in every step."},
                            bucket_option()},
                .workers = equal_workers,
                .rewrite = local_sgd_program});
}

}  // namespace telar
