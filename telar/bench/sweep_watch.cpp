#include "telar/bench/sweep_watch.h"

#include <fmt/format.h>

namespace telar::bench {

namespace {

std::string ending_of(const TrainingRun& run) {
  if (run.end == TrainingRun::End::failed) return "failed: " + run.failure;
  std::string text = run.end == TrainingRun::End::stopped ? "stopped" : "done";
  if (!run.curve.epochs.empty()) {
    const CurvePoint& last = run.curve.epochs.back();
    text += fmt::format(", {} epochs, {:.3g} s of training", last.epoch, last.seconds);
    if (last.accuracy) text += fmt::format(", accuracy {:.4f}", *last.accuracy);
  }
  return text;
}

void begin_after_first_step(TrainingCurve& curve) {
  if (curve.steps.empty()) return;
  const double start = curve.steps.front().seconds;
  for (auto* points : {&curve.steps, &curve.epochs})
    for (CurvePoint& point : *points) point.seconds -= start;
}

}  // namespace

TrainingRun train_and_tell(const TrainingStart& start, const std::string& what, const SweepWatch& watch,
                           const std::function<bool(const CurvePoint& epoch)>& enough) {
  if (watch.began) watch.began(what);
  TrainingRun run = run_training(start, {watch.stop_requested, watch.progress, enough});
  begin_after_first_step(run.curve);
  if (watch.ended) watch.ended(ending_of(run));
  return run;
}

}  // namespace telar::bench
