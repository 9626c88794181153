#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "telar/graph/program.h"

namespace telar {

/// What the graphs of a stage read of other stages, and what they deliver.
struct StageValues {
  std::set<std::string> reads;
  std::vector<std::pair<std::string, bool>> delivers;  ///< name, and whether before the pause
};
StageValues values_of(const std::vector<const Graph*>& graphs);

/// What passes between processes in one pipeline, if each has `together` consecutive stages of it. Stages are
/// numbered from 0. Of the stages of a process that read a value, the one that runs first receives it.
std::vector<Crossing> crossings_of(const std::vector<StageValues>& stages, size_t together);

/// Those in which a stage takes part.
std::vector<Crossing> crossings_at(const std::vector<Crossing>& crossings, int64_t stage);

/// Adds what must be received before an action, and sent after it.
std::vector<ScheduledAction> with_messages(const std::vector<ScheduledAction>& schedule,
                                           const std::vector<Crossing>& crossings, int64_t stage);

}  // namespace telar
