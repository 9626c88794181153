#include "telar/comm/store/store_works.h"

namespace telar {

std::vector<WorkRun> runs_of(const StoreWorks& works) {
  std::vector<WorkRun> runs;
  for (const auto& [range, numbers] : works)
    for (const auto& [first, last] : numbers.ranges())
      runs.push_back({.begin = range.first, .end = range.second, .first = first, .last = last});
  return runs;
}

bool add_run(StoreWorks& works, const WorkRun& run) {
  return run.first > 0 && run.last != INT64_MAX && works[{run.begin, run.end}].append(run.first, run.last);
}

}  // namespace telar
