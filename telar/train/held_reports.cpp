#include "telar/train/held_reports.h"

#include <algorithm>

namespace telar {

void HeldReports::step_done(const StepReport& report, const TrainingState& state) {
  held_.push_back({.step = state.step,
                   .tell = [state, sums = report.sums, samples = report.samples, rate = report.learning_rate,
                            seconds = report.seconds, last = report.last_of_epoch,
                            step = report.step_of_epoch](TrainingObserver& observer) {
                     observer.step_done({.samples = samples,
                                         .sums = sums,
                                         .learning_rate = rate,
                                         .seconds = seconds,
                                         .last_of_epoch = last,
                                         .step_of_epoch = step,
                                         .at = {},
                                         .after = {},
                                         .latency = {}},
                                        state);
                   }});
}

void HeldReports::epoch_done(const EpochReport& report, const TrainingState& state) {
  EpochReport first = report;
  first.again = false;
  held_.push_back({.epoch = state.epoch, .tell = [state, first](TrainingObserver& observer) {
                     observer.epoch_done(first, state);
                   }});
}

void HeldReports::tell(TrainingObserver& log, LoggedSoFar& logged) {
  for (const Held& held : held_) {
    if (held.step > logged.step || held.epoch > logged.epoch) held.tell(log);
    logged.step = std::max(logged.step, held.step);
    logged.epoch = std::max(logged.epoch, held.epoch);
  }
  clear();
}

}  // namespace telar
