#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "telar/bench/result.h"

namespace telar::bench {

/// A point of a learning curve.
struct CurvePoint {
  int64_t epoch = 0;   ///< from 1
  double samples = 0;  ///< trained on so far
  double seconds = 0;  ///< spent in training steps so far
  std::optional<double> loss;
  std::optional<double> accuracy;
  std::optional<double> window_loss;  ///< windowed means of a step on a stream
  std::optional<double> window_accuracy;
  bool validation = false;  ///< loss and accuracy of an epoch are those of its validation samples
  std::map<std::string, double> validated = {};  ///< of an epoch: their figures that are finite, "f1_macro"
};

/// A run was resumed, or has lost processes, or some have come.
struct CurveMark {
  double samples = 0;
  double seconds = 0;
  std::string text;
  std::optional<int64_t> processes = {};  ///< that the run goes on with
  std::optional<int64_t> before = {};
};

/// The contents of a run's metrics.jsonl.
struct TrainingCurve {
  std::vector<CurvePoint> steps;  ///< computed on each step's own samples
  std::vector<CurvePoint>
      epochs;  ///< after each epoch: on the validation samples; without them, on the training samples
  std::vector<CurveMark> marks;
};

/// Reads `folder`/metrics.jsonl. An incomplete last line is skipped; without the file the curve is empty.
/// Throws Error (user) with the line number if a line does not have the format that `telar train` writes.
TrainingCurve read_curve(const std::filesystem::path& folder);

/// Charts of the training loss, of the accuracy after each epoch (validation and training apart), and of the
/// windowed means of streams, over samples and over seconds; and of the number of processes, where some were
/// lost or have come. A chart has one line per curve, and marks; charts without data are left out. Of long
/// runs, a line has a few hundred points: the lowest and the highest of equal parts, so that no peak is lost.
std::vector<Chart> learning_charts(const std::vector<std::pair<std::string, TrainingCurve>>& named);

/// Follows the curve of a run in progress. It reads only what was added since the last call, and of the steps
/// only the newest, so that it does not slow down the training.
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
  std::uintmax_t read_ = 0;  ///< bytes read, up to the end of a line
};

}  // namespace telar::bench
