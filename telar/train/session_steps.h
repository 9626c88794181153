#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "telar/core/error.h"
#include "telar/data/batch_source.h"
#include "telar/data/loader.h"
#include "telar/train/step_source.h"

namespace telar {

/// A step whose loss is not finite; nothing was updated.
class NotFinite final : public Error {
 public:
  explicit NotFinite(const std::string& sentence) : Error(Kind::run, sentence) {}
};

struct SessionStepsOptions {
  Schedule schedule = {};
  LoaderOptions loader = {};
  bool tests_first = false;  ///< each batch is evaluated before its step (CompletedStep::tested)
  const StreamEvaluation* evaluation =
      nullptr;  ///< whose rate_factor() a step has when it begins; null: none
};

/// The steps that a session makes with the batches of a source, in order. A session that computes steps ahead
/// does so within a range, but not across its end.
class SessionSteps final : public StepSource {
 public:
  /// Both must outlive this object. Throws Error (user) for a source with other tensors than
  /// Session::inputs().
  SessionSteps(Session& session, const BatchSource& source, const SessionStepsOptions& options);

  /// Throws Error (user) for a range whose position is not one of the source, or not that of its first step.
  void begin(const StepRange& range) override;
  /// Begins a step, if one follows, and returns those that are complete.
  std::vector<CompletedStep> wait() override;
  bool finished() override { return complete_ == next_ && !follows(); }
  void drain() override { draining_ = true; }
  int64_t steps_done() override { return complete_; }
  std::optional<int64_t> fetch(Session& /*session*/) override { return std::nullopt; }

 private:
  struct Begun {
    StepInputs inputs;
    Position at;
    Position after;
    std::vector<int64_t> arrived;
    std::vector<double> tested;
    bool empty = false;  ///< its batch has no samples, so the session does not make it
  };

  bool follows() const { return next_ < range_.end && !draining_ && !ended_; }
  Position first_position() const;
  const Batch* next_batch();
  void begin_step();
  std::optional<StepResult> result_of(const Begun& step);
  float rate_of_next() const;
  NotFinite not_finite();

  Session& session_;
  const BatchSource& source_;
  SessionStepsOptions options_;
  Loader loader_;
  StepRange range_;
  int64_t next_ = 0;      ///< the step that begins next
  int64_t complete_ = 0;  ///< steps of the epoch whose results were returned
  std::deque<Begun> begun_;
  bool failed_ = false;  ///< the oldest step was not finite
  bool draining_ = false;
  bool ended_ = false;  ///< the source has no further batch, at present
  /// Where the loader continues, and the batches of the epoch that it may still read.
  std::optional<Position> reading_;
  int64_t unread_ = 0;
};

}  // namespace telar
