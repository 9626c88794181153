#include "telar/train/stream_observer.h"

#include <fmt/format.h>

#include <algorithm>

namespace telar {

namespace {

std::string uses_text(const std::vector<UsedOffsets>& uses) {
  std::string text;
  for (const UsedOffsets& used : uses)
    text += fmt::format("{}{}:{}-{}", text.empty() ? "" : " ", used.partition, used.first, used.end);
  return text;
}

}  // namespace

StreamObserver::StreamObserver(const Stream& stream, CheckpointPolicy policy,
                               const std::filesystem::path& audit, bool by_workers)
    : CheckpointTimes(policy), stream_(stream), by_workers_(by_workers) {
  if (!audit.empty()) audit_.emplace(audit);
}

void StreamObserver::epoch_began(const EpochStart& /*start*/, const TrainingState& state) {
  left_out_before_ = state.position.bytes.empty() ? 0 : stream_.left_out(state.position);
}

void StreamObserver::step_done(const StepReport& report, const TrainingState& state) {
  latency_.add(report.latency);
  if (by_workers_) {
    worker_step_done(report, state);
  } else {
    own_step_done(state);
  }
}

void StreamObserver::own_step_done(const TrainingState& state) {
  last_ = state.position;
  const int64_t left_out = stream_.left_out(last_);
  left_out_ += left_out - left_out_before_;
  left_out_before_ = left_out;
  if (audit_) write(state.step, stream_.uses(last_));
}

/// A step of several workers: they report how many samples it had. Steps are done in any order; at a
/// checkpoint, all before the last one are done.
void StreamObserver::worker_step_done(const StepReport& report, const TrainingState& state) {
  const std::vector<UsedOffsets> read = stream_.between(report.at, report.after);
  for (const UsedOffsets& offsets : read) left_out_ += offsets.end - offsets.first;
  left_out_ -= report.samples;
  last_ = std::max(last_, report.after);
  if (audit_) write(state.step, {.used = read, .left_out = {}});
}

void StreamObserver::write(int64_t step, const BatchUse& use) {
  audit_->append({{"step", step}, {"used", uses_text(use.used)}, {"left_out", uses_text(use.left_out)}});
}

void StreamObserver::stored() {
  if (!last_.bytes.empty()) stream_.stored(last_);
}

void StreamObserver::sync() {
  if (audit_) audit_->sync();
}

}  // namespace telar
