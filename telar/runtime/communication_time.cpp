#include "telar/runtime/communication_time.h"

#include <vector>

namespace telar {

void compare_over(Processes& processes, std::span<CommunicationTime> steps) {
  // When one was lost, the others may have counted the step of that moment or not (ElasticProcesses).
  steps = steps.last(static_cast<size_t>(processes.lowest(static_cast<int>(steps.size()))));
  std::vector<float> least;
  least.reserve(steps.size());
  for (const CommunicationTime& step : steps) least.push_back(static_cast<float>(step.exposed));
  processes.lowest(least);
  for (size_t s = 0; s < steps.size(); ++s) {
    const auto exposed = static_cast<double>(least[s]);
    steps[s].waiting += steps[s].exposed - exposed;
    steps[s].exposed = exposed;
  }
}

CommunicationTime parts_of(std::span<const CommunicationTime> steps, double seconds) {
  CommunicationTime sum;
  if (seconds <= 0) return sum;
  for (const CommunicationTime& step : steps) {
    sum.within_gradient += step.within_gradient;
    sum.exposed += step.exposed;
    sum.waiting += step.waiting;
  }
  return {sum.within_gradient / seconds, sum.exposed / seconds, sum.waiting / seconds};
}

}  // namespace telar
