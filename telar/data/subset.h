#pragma once

#include <cstdint>
#include <vector>

#include "telar/data/dataset.h"

namespace telar {

/// The samples `indices` of another dataset, in that order. Throws Error (user) for an index that does not
/// exist.
DatasetPtr subset(DatasetPtr data, std::vector<uint32_t> indices);

/// The samples sorted by class; samples of one class keep the order of the data. Reads all of them. Throws
/// Error (user) for data without classes.
DatasetPtr by_label(const DatasetPtr& data);

struct HeldOut {
  DatasetPtr train;
  DatasetPtr validation;
};

/// Reserves `fraction` of the samples (rounded to the nearest number) for validation. The choice depends only
/// on `seed`; both parts keep the order of the data. Throws Error (user) when a part would be empty.
HeldOut hold_out(const DatasetPtr& data, double fraction, uint64_t seed);

}  // namespace telar
