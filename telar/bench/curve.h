#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "telar/bench/result.h"

namespace telar::bench {

/// A point of a training's curve.
struct CurvePoint {
  int64_t epoch = 0;   ///< from 1
  double samples = 0;  ///< trained on so far
  double seconds = 0;  ///< spent in training steps so far
  std::optional<double> loss;
  std::optional<double> accuracy;
};

/// What a run's metrics.jsonl tells.
struct TrainingCurve {
  std::vector<CurvePoint> steps;  ///< of each step's own samples
  std::vector<CurvePoint>
      epochs;  ///< after each epoch: of the validation samples, or where there are none of the training samples
};

/// Reads `folder`/metrics.jsonl; a last line that was cut is passed over, and without a file the curve is empty. Throws Error (user) for
/// a line that is not as `telar train` writes it, with its number.
TrainingCurve read_curve(const std::filesystem::path& folder);

/// The training loss, and the accuracy after each epoch, each against samples and against seconds: a line for each of the curves, in each
/// chart of which any has something. Of long runs a line has some hundreds of points, the means of stretches.
std::vector<Chart> learning_charts(const std::vector<std::pair<std::string, TrainingCurve>>& named);

/// The curve of a run that goes on: what was added since the last time, of steps only the newest, so that looking takes no time from the
/// training.
class CurveWatch {
 public:
  explicit CurveWatch(const std::filesystem::path& folder) : file_(folder / "metrics.jsonl") {}
  struct News {
    std::optional<CurvePoint> step;  ///< the newest
    std::vector<CurvePoint> epochs;
  };
  News look();

 private:
  std::filesystem::path file_;
  std::uintmax_t read_ = 0;  ///< bytes, up to the end of a line
};

}  // namespace telar::bench
