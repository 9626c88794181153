#pragma once

#include "telar/strategy/strategy.h"
#include "telar/train/job.h"

namespace telar {

/// What a job's strategy says of itself, for the options of the job.

/// Throws Error (user) for an unknown name.
const StrategyType& type_of(const StrategyJob& strategy);

/// True if the job's strategy needs parameter servers.
bool uses_servers(const Job& job);
/// How many servers have what one server of the placement holds (strategy.server_replicas).
int64_t server_copies(const StrategyJob& strategy);
/// Of parameter servers: one for each of the placement, and as many as copies.
int64_t server_processes(const StrategyJob& strategy);

/// The workers that the job asks for: replicas or stages, or worker processes.
Workers workers_of(const StrategyJob& strategy);

/// How these workers work together.
Cooperation cooperation_of(const StrategyJob& strategy);

/// The number of workers including backups: the number of values that strategy.threads may have.
int64_t all_workers_of(const StrategyJob& strategy);

/// Of those, the ones of one process in lockstep. Throws Error (user) unless so many processes can have them.
int64_t workers_of_process(const StrategyJob& strategy, int processes);
/// That several processes train a job which names no strategy by `mirrored`; empty for other jobs.
std::string implied_text(const StrategyJob& strategy, int64_t processes);

/// "replica", "stages": what the strategy calls so many workers.
std::string worker_word(const StrategyJob& strategy, int64_t count);

/// "mirrored or sharded": the strategies that are to be chosen if replicas must share batches.
std::string strategies_that_share_batches();

/// Throws Error (user) unless, of so many processes, each takes a share of every batch. `samples`: those of
/// which only such strategies can be trained: "a stream".
void require_shares_of_batches(const Job& job, int processes, const std::string& samples);

}  // namespace telar
