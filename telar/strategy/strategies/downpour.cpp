#include "telar/strategy/server_side.h"

namespace telar {

namespace {

Cooperation free_with_pushes(const Attributes& options) {
  return free_within_staleness(options, options.integer("push_every"));
}

/// Downpour SGD (Dean et al., 2012, section 4.1 and appendix). In each step the worker alone does
/// p ← p − lr·ĝ (if fetch_every > 1). Every push_every steps it sends the accrued gradients, the sum of the
/// batches' means, to the servers, whose optimizer applies them on arrival. Every fetch_every steps it
/// fetches the servers' parameters.
Program downpour_program(const TrainingStep& step, const Cluster& cluster, const Attributes& options,
                         const std::vector<OperationCost>& /*costs*/) {
  const int64_t fetch_every = options.integer("fetch_every");
  std::vector<ScheduledAction> schedule = {action::compute_gradient()};
  // Between two fetches a worker continues on its own; an update just before a fetch would be overwritten.
  if (fetch_every > 1) schedule.push_back(action::update_shard());
  schedule.push_back(push_of(options, options.integer("push_every")));
  schedule.push_back(action::pull(fetch_every));
  return server_program("downpour", step, cluster, std::move(schedule),
                        fetch_every > 1 ? plain_update(step) : Graph(),
                        make_server_side(step, step.update, cluster, placer_for(options, cluster.servers)));
}

}  // namespace

void register_downpour(StrategyRegistry& registry) {
  StrategyType type = server_strategy(
      "downpour", "workers push gradients and fetch parameters every few steps, each at its own pace",
      free_with_pushes,
      with_payload_options({{.name = "push_every",
                             .fallback = int64_t{1},
                             .rule = {.least = 1, .most = 1e9},
                             .help = "Steps between two pushes of gradients: n_push."},
                            {.name = "fetch_every",
                             .fallback = int64_t{1},
                             .rule = {.least = 1, .most = 1e9},
                             .help = "Steps between two fetches of parameters: n_fetch."},
                            staleness_option()}),
      check_payload);
  type.rewrite = downpour_program;
  type.elastic = true;
  registry.add(std::move(type));
}

}  // namespace telar
