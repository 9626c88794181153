#pragma once

#include <cstdint>
#include <vector>

#include "telar/data/dataset.h"
#include "telar/data/selection.h"

namespace telar {

/// The samples `indices` of another dataset, in that order. Throws Error (user) for an index that does not
/// exist.
DatasetPtr subset(DatasetPtr data, std::vector<int64_t> indices);

/// The selected samples of another dataset, of whose numbers the selection is.
DatasetPtr selected(DatasetPtr data, Selection selection);

/// The first `count` samples of another dataset, which has at least as many.
DatasetPtr first_samples(DatasetPtr data, int64_t count);

/// The samples sorted by class; samples of one class keep the order of the data. Reads all of them,
/// and keeps an array of 8 bytes for each. Throws Error (user) for data without classes.
DatasetPtr by_label(const DatasetPtr& data);

}  // namespace telar
