#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include "telar/data/stream.h"
#include "telar/observe/metrics_log.h"
#include "telar/train/run_observers.h"

namespace telar {

/// Follows a training on a stream: tells the stream what is stored, counts the messages that were left out
/// and, for an audit, writes which offsets each step has used. Comes after the CheckpointObserver.
class StreamObserver final : public CheckpointTimes {
 public:
  /// `audit`: the file of lines {"step": 7, "used": "0:96-112 1:96-100 1:101-112", "left_out": "1:100-101"}:
  /// the offsets from the first to before the second number of each partition, which were trained on, and
  /// those of damaged messages; empty: no file.
  StreamObserver(const Stream& stream, CheckpointPolicy policy, const std::filesystem::path& audit);

  void epoch_began(const EpochStart& start, const TrainingState& state) override;
  void step_done(const StepReport& report, const TrainingState& state) override;

  /// Call when the state after the last step is stored.
  void stored();
  /// Waits until the audit is on the storage device.
  void sync();
  /// Messages, in the steps of this process.
  int64_t left_out() const { return left_out_; }

 private:
  void due(const TrainingState& /*state*/) override { stored(); }
  void worker_step_done(const StepReport& report, const TrainingState& state);
  void write(int64_t step, const BatchUse& use);

  const Stream& stream_;
  std::optional<MetricsLog> audit_;
  Position last_;
  int64_t left_out_before_ = 0;  ///< of the pass
  int64_t left_out_ = 0;
};

}  // namespace telar
