#include "telar/train/job_strategy.h"

#include "telar/core/error.h"
#include "telar/core/suggest.h"

namespace telar {

const StrategyType& type_of(const StrategyJob& strategy) { return strategy_type(strategy.name); }

bool uses_servers(const Job& job) { return type_of(job.strategy).uses_servers; }

int64_t workers_of(const StrategyJob& strategy) { return worker_count(type_of(strategy), strategy.options); }

Cooperation cooperation_of(const StrategyJob& strategy) {
  return cooperation_of(type_of(strategy), strategy.options);
}

int64_t all_workers_of(const StrategyJob& strategy) {
  return workers_of(strategy) + cooperation_of(strategy).backups;
}

std::string worker_word(const StrategyJob& strategy, int64_t count) {
  return type_of(strategy).worker + (count == 1 ? "" : "s");
}

std::string strategies_that_share_batches() {
  return one_of(strategy_names([](const StrategyType& type) { return type.shares_batches; }));
}

void require_shares_of_batches(const Job& job, int processes, const std::string& samples) {
  if (type_of(job.strategy).shares_batches) return;
  throw user_error("strategy {} cannot train on {} in {} processes; choose {}, or start one process",
                   job.strategy.name, samples, processes, strategies_that_share_batches());
}

}  // namespace telar
