#include "telar/train/job_strategy.h"

#include <algorithm>

#include "telar/core/error.h"
#include "telar/core/suggest.h"

namespace telar {

const StrategyType& type_of(const StrategyJob& strategy) { return strategy_type(strategy.name); }

bool uses_servers(const Job& job) { return type_of(job.strategy).uses_servers; }

int64_t server_copies(const StrategyJob& strategy) {
  if (strategy.server_replicas > 0) return strategy.server_replicas;
  return strategy.servers > 1 && strategy.snapshot_seconds == 0 ? 2 : 1;
}

int64_t server_processes(const StrategyJob& strategy) {
  return std::max(strategy.servers, server_copies(strategy));
}

Workers workers_of(const StrategyJob& strategy) {
  return Strategy{type_of(strategy), strategy.options}.workers();
}

Cooperation cooperation_of(const StrategyJob& strategy) {
  return Strategy{type_of(strategy), strategy.options}.cooperation();
}

int64_t all_workers_of(const StrategyJob& strategy) {
  return workers_of(strategy).count + cooperation_of(strategy).backups;
}

int64_t workers_of_process(const StrategyJob& strategy, int processes) {
  const Workers all = workers_of(strategy);
  if (processes > 1 && type_of(strategy).count.empty())
    throw user_error("strategy '{}' trains in one process, not {}; choose {}, or leave the strategy out",
                     strategy.name, processes, strategies_that_share_batches());
  if (!all.of_all_processes) return all.count;
  if (all.count % processes != 0)
    throw user_error(
        "strategy {} has {} {} in all processes together, which cannot be divided among {} processes; start a number of processes that divides {}",
        strategy.name, all.count, worker_word(strategy, all.count), processes, all.count);
  return all.count / processes;
}

std::string implied_text(const StrategyJob& strategy, int64_t processes) {
  if (!strategy.implied) return "";
  return fmt::format(
      "the job names no strategy: {} processes train it by {}, each with a share of every batch", processes,
      strategy.name);
}

std::string worker_word(const StrategyJob& strategy, int64_t count) {
  return type_of(strategy).worker + (count == 1 ? "" : "s");
}

std::string strategies_that_share_batches() {
  return one_of(strategy_names([](const StrategyType& type) { return usual_workers(type).unequal; }));
}

void require_shares_of_batches(const Job& job, int processes, const std::string& samples) {
  if (workers_of(job.strategy).unequal) return;
  throw user_error("strategy {} cannot train on {} in {} processes; choose {}, or start one process",
                   job.strategy.name, samples, processes, strategies_that_share_batches());
}

}  // namespace telar
