#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "telar/data/dataset.h"

namespace telar {

/// What numbers lose as f32: those near 1e9 that vary by 1, all that tells them apart.
class RoundingLoss {
 public:
  /// `numbers`: of each sample.
  explicit RoundingLoss(size_t numbers) : sums_(numbers) {}

  /// The numbers of one sample after another.
  void add(double number);

  /// "FILE: WHAT have a standard deviation of …; ADVICE" if rounding changes one of the numbers by more than a
  /// hundredth of its standard deviation; otherwise "".
  std::string warning(const std::string& file, const std::string& what, const std::string& advice) const;

 private:
  struct Sums {
    double count = 0;
    double mean = 0;
    double squares = 0;  ///< of the distances from the mean
    double lost = 0;     ///< squares of what rounding has changed
  };

  std::vector<Sums> sums_;
  size_t next_ = 0;
};

/// The warning of a file's targets, which models take as f32, and which are not normalised before.
std::string target_warning(const RoundingLoss& targets, const std::string& file);

/// That of the features of a file, where they become f32 before they are normalised.
std::string feature_warning(const Dataset& data, const std::string& file, const std::string& advice);

}  // namespace telar
