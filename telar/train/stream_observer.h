#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include "telar/data/streams/stream.h"
#include "telar/observe/metrics_log.h"
#include "telar/train/checkpoint_observer.h"
#include "telar/train/step_source.h"

namespace telar {

/// The damaged messages in a step of a training on a stream, which were left out. `by_workers`: the step is
/// one of several workers, who report how many samples it had.
int64_t left_out_of(const Stream& stream, const CompletedStep& step, bool by_workers);

/// Tells a stream what a training has stored, and writes the audit. Comes after the CheckpointObserver.
class StreamObserver final : public CheckpointTimes {
 public:
  /// `audit`: the file of lines {"step": 7, "used": "0:96-112 1:96-100 1:101-112", "left_out": "1:100-101"}:
  /// the offsets from the first to before the second number of each partition, which were trained on, and
  /// those of damaged messages; empty: no file.
  /// `by_workers`: the steps are those of several workers, which have read the messages.
  StreamObserver(const Stream& stream, CheckpointPolicy policy, const std::filesystem::path& audit,
                 bool by_workers);

  void step_done(const StepReport& report, const TrainingState& state) override;

  /// Call when the state after the last step is stored.
  void stored();
  /// From a message's arrival to the update that it has contributed to, of the steps of this run.
  const LatencyCounts& latency() const { return latency_; }
  /// Waits until the audit is on the storage device.
  void sync();

 private:
  void due(const TrainingState& /*state*/) override { stored(); }
  void write(int64_t step, const BatchUse& use);

  const Stream& stream_;
  std::optional<MetricsLog> audit_;
  bool by_workers_;
  Position last_;
  LatencyCounts latency_;
};

}  // namespace telar
