#include "telar/strategy/server_side.h"

namespace telar {

namespace {

Cooperation rounds_with_backups(const Attributes& options) {
  return {.kind = Cooperation::Kind::rounds, .backups = options.integer("backups")};
}

/// Synchronous training on parameter servers. The gradient sums of n workers, each for its part of the batch,
/// are added in a fixed order and applied once; the result equals that of one process. Backup workers compute
/// parts that are not ready, and the first sum of a part counts (after Chen et al., Revisiting Distributed
/// Synchronous SGD, 2016, who leave out the last parts).
Program sync_ps_program(const TrainingStep& step, const Cluster& cluster, const Attributes& options,
                        const std::vector<OperationCost>& /*costs*/) {
  return server_program("sync_ps", step, cluster,
                        {action::compute_gradient(), push_of(options), action::pull()}, Graph(),
                        make_server_side(step, step.update, cluster, placer_for(options, cluster.servers)));
}

}  // namespace

void register_sync_ps(StrategyRegistry& registry) {
  StrategyType type = server_strategy(
      "sync_ps", "each update takes the gradients of all workers, each for its part of the batch",
      rounds_with_backups,
      with_payload_options(
          {{.name = "backups",
            .fallback = int64_t{0},
            .rule = {.least = 0, .most = 1024},
            .help =
                "Number of additional workers, which compute parts of a batch that are not ready, too. Of each part, the first gradient is used."}}),
      check_payload);
  type.rewrite = sync_ps_program;
  registry.add(std::move(type));
}

}  // namespace telar
