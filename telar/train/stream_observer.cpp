#include "telar/train/stream_observer.h"

#include <fmt/format.h>

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
                               const std::filesystem::path& audit)
    : CheckpointTimes(policy), stream_(stream) {
  if (!audit.empty()) audit_.emplace(audit);
}

void StreamObserver::epoch_began(const EpochStart& /*start*/, const TrainingState& state) {
  left_out_before_ = state.position.bytes.empty() ? 0 : stream_.left_out(state.position);
}

void StreamObserver::step_done(const StepReport& /*report*/, const TrainingState& state) {
  last_ = state.position;
  const int64_t left_out = stream_.left_out(last_);
  left_out_ += left_out - left_out_before_;
  left_out_before_ = left_out;
  if (audit_) audit_->append({{"step", state.step}, {"used", uses_text(stream_.uses(last_))}});
}

void StreamObserver::stored() {
  if (!last_.bytes.empty()) stream_.stored(last_);
}

void StreamObserver::sync() {
  if (audit_) audit_->sync();
}

}  // namespace telar
