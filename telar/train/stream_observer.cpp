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

int64_t left_out_of(const Stream& stream, const CompletedStep& step, bool by_workers) {
  if (!by_workers) return stream.left_out(step.after) - stream.left_out(step.at);
  int64_t messages = 0;
  for (const UsedOffsets& offsets : stream.between(step.at, step.after))
    messages += offsets.end - offsets.first;
  return messages - step.samples;
}

StreamObserver::StreamObserver(const Stream& stream, CheckpointPolicy policy,
                               const std::filesystem::path& audit, bool by_workers)
    : CheckpointTimes(policy), stream_(stream), by_workers_(by_workers) {
  if (!audit.empty()) audit_.emplace(audit);
}

void StreamObserver::step_done(const StepReport& report, const TrainingState& state) {
  latency_.add(report.latency);
  last_ = std::max(last_, report.after);  // workers complete steps in any order
  if (!audit_) return;
  write(state.step, by_workers_ ? BatchUse{.used = stream_.between(report.at, report.after), .left_out = {}}
                                : stream_.uses(report.after));
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
