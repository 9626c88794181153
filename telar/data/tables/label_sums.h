#pragma once

#include <cstdint>
#include <vector>

#include "telar/data/dataset.h"

namespace telar {

/// The class of each sample. Reads all samples. Throws Error (user) for labels that are numbers, and for
/// several labels in a sample.
std::vector<int32_t> labels_of(const Dataset& data);

/// The number of samples of each class. Reads all samples. Throws Error (user) for labels that are numbers.
std::vector<int64_t> class_counts(const Dataset& data);

/// The mean of each number of the labels. Reads all samples. Throws Error (user) for classes.
std::vector<double> target_means(const Dataset& data);

/// The same samples, of which a label that is not from 0 to 1 throws Error (user) when it is read; with
/// `whole`, one that is neither 0 nor 1.
DatasetPtr with_probabilities(DatasetPtr data, bool whole);

}  // namespace telar
