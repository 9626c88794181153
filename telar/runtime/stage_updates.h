#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <vector>

#include "telar/runtime/shared_state.h"

namespace telar {

/// The updates of the stages of one pipeline in this process. All of them begin when the last stage has its
/// gradients, and stages keep different numbers of parameters: so who has made its own helps the others.
/// An update works element by element, so its result does not depend on who makes it.
class StageUpdates {
 public:
  /// Updates the bytes [begin, end) of what a stage keeps, on any thread. `sum_of_squares`: see
  /// Updater::apply, as is the result.
  using Apply = std::function<bool(size_t begin, size_t end, double sum_of_squares)>;

  explicit StageUpdates(size_t stages) : stages_(stages) {}

  /// Called by a stage before it meets the others in a step: what there is to update in it.
  void begin(size_t stage, const ByteRanges& ranges, Apply apply);
  /// Called by every stage after that. Returns when all of this stage is updated: whether its gradients were
  /// finite.
  bool make(size_t stage, double sum_of_squares);

 private:
  struct OfStage {
    ByteRanges pieces;
    Apply apply;
    std::atomic<size_t> taken{0};
    std::atomic<size_t> made{0};
    std::atomic<bool> finite{true};
  };

  std::vector<OfStage> stages_;
};

}  // namespace telar
