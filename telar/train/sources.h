#pragma once

#include <string>
#include <vector>

#include "telar/data/dataset.h"
#include "telar/train/job.h"

namespace telar {

/// The samples of a job's source as they are, before any decorator. The test samples are null where the source has none of
/// its own.
DatasetPtr open_train_source(const DataJob& data, uint64_t seed);
DatasetPtr open_test_source(const DataJob& data, uint64_t seed);

/// The character that `data.separator` names.
char separator_of(const DataJob& data);

/// Mean and standard deviation for each channel.
struct Moments {
  std::vector<double> mean;
  std::vector<double> std;
};

/// The published ones of a source; empty for one that has none.
Moments known_moments(const std::string& source);

/// Measured over at most `most` samples, evenly chosen. A channel that never changes gets the deviation 1.
Moments measured_moments(const Dataset& data, int64_t most);

}  // namespace telar
