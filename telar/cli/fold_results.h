#pragma once

#include <string>
#include <utility>
#include <vector>

namespace telar::cli {

/// The figures of runs that differ in the fold of their validation samples.
class FoldResults {
 public:
  /// Takes the summary.json of the next fold's run.
  void add(const std::string& summary);

  /// "validation: loss 0.4123 ± 0.0512, accuracy 0.8120 ± 0.0310" and the same for "test", each on a line: mean
  /// and standard deviation (n − 1) over the folds; NaN of a figure that a fold lacks.
  std::string text() const;
  /// The same as JSON, with the values of each fold; null for NaN.
  std::string json() const;

 private:
  /// Figures by name, "validation_loss", in the order of the summaries: of each fold.
  std::vector<std::pair<std::string, std::vector<double>>> figures_;
  std::vector<std::string> folders_;
};

}  // namespace telar::cli
