#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "telar/observe/adwin.h"
#include "telar/observe/page_hinkley.h"
#include "telar/observe/stream_means.h"

namespace telar {

struct AdwinSettings {
  double delta = 0.002;
};

/// What is done when a drift is detected, and how one is.
struct DriftOptions {
  std::variant<AdwinSettings, PageHinkleyOptions> detector;
  size_t metric = 0;  ///< that is watched. A drift is a rise
  /// The metric is an accuracy, and the error of each sample is watched: 0 or 1. Otherwise one value for each
  /// step is, the metric's mean.
  bool is_accuracy = false;
  double factor = 1;  ///< of the learning rate; 1: it stays as it is
  int64_t steps = 0;  ///< for which the learning rate is multiplied
};

/// How samples of a stream that have not been trained on are used as test samples: each batch is tested with
/// the parameters before its step (prequential evaluation; Dawid 1984, Gama et al. 2013).
struct StreamEvaluationOptions {
  StreamMeanOptions means;
  /// Tested by a pass of its own, in evaluation mode. Otherwise by the forward pass of the training step,
  /// which also has the parameters before the step, but dropout and the batch's own statistics.
  bool separate_pass = false;
  std::optional<DriftOptions> drift;
};

/// A drift that was detected.
struct DriftEvent {
  int64_t step = 0;     ///< of the training, after which it was detected
  int64_t samples = 0;  ///< trained on until then
  double value = 0;     ///< the mean over that step of what is watched
  double window = 0;    ///< its windowed mean
  bool operator==(const DriftEvent&) const = default;
};

/// Steps of the training, from `first` to `last`, whose learning rate is multiplied.
struct RaisedRate {
  int64_t first = 0;
  int64_t last = 0;
  double factor = 1;
  bool operator==(const RaisedRate&) const = default;
};

/// The evaluation of a training on a stream so far; a part of the training's state.
class StreamEvaluation {
 public:
  using Detector = std::variant<std::monostate, Adwin, PageHinkley>;
  static constexpr size_t kNamedDrifts = 100;
  /// A step that is complete raises the rate of the steps that cannot have begun yet: from the one after
  /// Session::kStepsAhead others on. So it does not matter how many have.
  static constexpr int64_t kStepsBegun = 4;

  /// A step's metric sums over its samples, of which there is at least one. `step` and `samples`: of the
  /// training, with this step. Returns whether a drift is detected; it is then the last of `drifts`.
  bool add(const StreamEvaluationOptions& options, std::span<const double> sums, int64_t samples_of_step,
           int64_t step, int64_t samples);

  /// By which the learning rate of a step is multiplied.
  double rate_factor(int64_t step) const;

  bool operator==(const StreamEvaluation&) const = default;

  StreamMeans means;
  Detector detector;
  int64_t drift_count = 0;
  std::vector<DriftEvent> drifts;  ///< the last kNamedDrifts
  std::vector<RaisedRate> raised;  ///< those that were not over at the last drift; they do not overlap

 private:
  void raise_rate(const DriftOptions& drift, int64_t step);
};

/// For the user: "drift after step 310: 0.7188 in this step, 0.2110 in the window".
std::string drift_text(const DriftEvent& drift, const StreamEvaluation& evaluation);

}  // namespace telar
