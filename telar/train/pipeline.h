#pragma once

#include <cstdint>
#include <optional>

#include "telar/data/dataset.h"
#include "telar/train/job.h"

namespace telar {

/// The datasets of a job, with their decorators. `validation` and `test` are null if the job has none.
struct Datasets {
  DatasetPtr train;
  DatasetPtr validation;
  DatasetPtr test;
};

/// Opens the datasets that the section "data" describes; `seed` selects the validation samples. Measured
/// means and deviations are written into `data`, so that the job as run contains them. Throws Error (user):
/// missing or damaged files, or options that do not fit them.
Datasets open_datasets(DataJob& data, uint64_t seed);

/// Only the test samples, for a job as run. Does not open the training files if the source stores them
/// separately. Null if there are no test samples.
DatasetPtr open_test_dataset(const DataJob& data, uint64_t seed);

/// Samples as in training: normalised with the job's mean and std if it has them. Null if `samples` is null.
DatasetPtr normalise(const DataJob& data, DatasetPtr samples);

/// The description of a sample as far as the job alone determines it; opens no files. Empty for csv, npy, idx
/// and images.
std::optional<SampleSpec> spec_without_files(const DataJob& data);

}  // namespace telar
