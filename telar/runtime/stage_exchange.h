#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "telar/core/buffer.h"
#include "telar/device/layout.h"

namespace telar {

/// How far a stage has come: micro-batches that it has finished, counted on from step to step. Written by one thread.
class Progress {
 public:
  int64_t count() const { return done_.load(std::memory_order_acquire); }
  void advance();
  /// Waits until `count` micro-batches are done: spins while that is near, then sleeps. False when the stages were stopped.
  bool wait_for(int64_t count) const;
  /// Ends every waiting, now and later.
  void stop();
  void reset() { done_ = 0; }

 private:
  static constexpr int64_t kStopped = -1;
  std::atomic<int64_t> done_{0};
};

/// What the stages of a pipeline share beside the state: the values that go from one to the other, and how far each has come.
class StageExchange {
 public:
  /// `x`, `label`: bytes of one sample.
  StageExchange(size_t stages, size_t parameters, size_t x, size_t label)
      : x_bytes(x),
        label_bytes(label),
        squares(parameters),
        non_finite(stages),
        forward(stages),
        backward(stages) {}

  const size_t x_bytes;
  const size_t label_bytes;
  /// Sum of the squares of each parameter's gradient, written by the stage that updates its beginning.
  std::vector<double> squares;

  /// Where a stage first met a NaN or infinity in its forward and in its backward part.
  struct NonFinite {
    std::string forward;
    std::string backward;
  };
  std::vector<NonFinite> non_finite;

  /// By name, in the layout on which the first stage that meets the value has decided. Written while the others wait.
  std::map<std::string, TensorLayout> layouts;
  /// One step's progress of each stage.
  std::vector<Progress> forward;
  std::vector<Progress> backward;

  /// Makes room for `samples` of every value in `layouts`. True when the values have moved.
  bool reserve(int64_t samples);
  /// Where the values' samples from `first` on lie.
  std::map<std::string, std::byte*> addresses(int64_t first);
  /// Changes whenever the values have moved.
  uint64_t generation() const { return generation_; }
  size_t bytes() const { return memory_.size(); }

  /// Frees every stage that waits for another.
  void stop();
  void reset();
  /// How often they were: what a stage was about to plan then is not to be trusted.
  uint64_t resets() const { return resets_; }

 private:
  uint64_t resets_ = 0;
  int64_t samples_ = 0;
  uint64_t generation_ = 0;
  Buffer memory_;
  std::map<std::string, size_t> offsets_;
};

/// Bytes of one sample of a value whose layout has the batch outermost.
inline size_t sample_bytes(const TensorLayout& layout) {
  return layout.bytes / static_cast<size_t>(layout.shape[0]);
}

}  // namespace telar
