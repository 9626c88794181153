#pragma once

#include <cstdint>
#include <optional>

#include "telar/data/dataset.h"
#include "telar/train/job.h"

namespace telar {

/// The datasets of a job, each with its decorators. `validation` and `test` are null where the job has none.
struct Datasets {
  DatasetPtr train;
  DatasetPtr validation;
  DatasetPtr test;
};

/// Opens what the section "data" describes; `seed` chooses the validation samples. Measured means and deviations are written
/// into `data`, so that the job as run has them. Throws Error (user): files that are missing or damaged, options that do
/// not fit them.
Datasets open_datasets(DataJob& data, uint64_t seed);

/// The test samples alone (of a job as run), without opening the training files where the source keeps them apart; null when
/// there are none.
DatasetPtr open_test_dataset(const DataJob& data, uint64_t seed);

/// Samples as the training saw them: with the job's mean and std, where it has some. Null stays null.
DatasetPtr normalise(const DataJob& data, DatasetPtr samples);

/// What the samples look like, as far as the job alone says it: without a file opened. Empty for csv, npy, idx and images.
std::optional<SampleSpec> spec_without_files(const DataJob& data);

}  // namespace telar
