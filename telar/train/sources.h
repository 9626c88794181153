#pragma once

#include <string>
#include <vector>

#include "telar/data/dataset.h"
#include "telar/data/image_folder.h"
#include "telar/train/job.h"

namespace telar {

/// The raw samples of a job's source, without decorators.
struct Source {
  DatasetPtr samples;       ///< null if the source has no separate test samples
  PictureListPtr pictures;  ///< the files of an image folder; null for other sources
};

/// `listing`: how the files of image folders are read; other sources do not use it.
Source open_train_source(const DataJob& data, uint64_t seed, const PictureListing& listing);
Source open_test_source(const DataJob& data, uint64_t seed, const PictureListing& listing);

/// The character that `data.separator` names.
char separator_of(const DataJob& data);

/// Mean and standard deviation of each channel.
struct Moments {
  std::vector<double> mean;
  std::vector<double> std;
};

/// The published moments of a source; empty if there are none.
Moments known_moments(const std::string& source);

/// Moments measured over at most `most` evenly spaced samples. A constant channel gets the deviation 1.
Moments measured_moments(const Dataset& data, int64_t most);

}  // namespace telar
