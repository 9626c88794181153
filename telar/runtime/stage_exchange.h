#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "telar/device/layout.h"
#include "telar/runtime/batch_parts.h"
#include "telar/runtime/common_memory.h"

namespace telar {

/// The progress of a stage: the number of micro-batches it has finished, counted across steps. Written by one
/// thread.
class StageProgress {
 public:
  int64_t count() const { return done_.load(std::memory_order_acquire); }
  void advance();
  /// Waits until `count` micro-batches are done. Spins first, then sleeps. Returns false if the stages were
  /// stopped.
  bool wait_for(int64_t count) const;
  /// Ends all present and future waits.
  void stop();
  void reset() { done_ = 0; }

 private:
  static constexpr int64_t kStopped = -1;
  std::atomic<int64_t> done_{0};
};

/// The stages of a pipeline that are in this process: [begin, end) of `count`.
struct StagesHere {
  size_t begin = 0;
  size_t end = 0;
  size_t count = 0;

  bool all() const { return begin == 0 && end == count; }
};

/// What the stages of a pipeline in one process share for one kind of graph: the values that pass from stage
/// to stage, and each stage's progress.
class StageExchange {
 public:
  /// `memory`: for the values; it must outlive the exchange.
  StageExchange(const StagesHere& stages, SampleInputs of_samples, CommonMemory& memory)
      : here(stages),
        inputs(std::move(of_samples)),
        forward(stages.count),
        backward(stages.count),
        memory_(memory) {}

  const StagesHere here;
  const SampleInputs inputs;  ///< of all stages

  /// Names of the values that stages of this process deliver or read.
  std::set<std::string> names;
  /// By name, in the layout chosen by the first stage that uses the value. Written while the other stages
  /// wait.
  std::map<std::string, TensorLayout> layouts;
  /// Each stage's progress, forward and backward; only those of this process advance.
  std::vector<StageProgress> forward;
  std::vector<StageProgress> backward;

  /// Makes room for `samples` samples of every value in `layouts`.
  void reserve(int64_t samples);
  /// Addresses of the values' samples from `first` on.
  std::map<std::string, std::byte*> addresses(int64_t first);
  /// From 2; larger whenever the values have moved.
  uint64_t generation() const { return generation_ + memory_.generation(); }
  size_t bytes() const { return memory_.size(); }

  /// Ends the waits of all stages.
  void stop();
  void reset();
  /// Number of calls of reset(). After a reset, a stage must discard its plans, which may be incomplete.
  uint64_t resets() const { return resets_; }

 private:
  uint64_t resets_ = 0;
  int64_t samples_ = 0;
  uint64_t generation_ = 1;
  CommonMemory& memory_;
  std::map<std::string, size_t> offsets_;
};

/// Bytes of one sample of a value whose outermost dimension is the batch.
inline size_t sample_bytes(const TensorLayout& layout) {
  return layout.bytes / static_cast<size_t>(layout.shape[0]);
}

}  // namespace telar
