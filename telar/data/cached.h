#pragma once

#include "telar/data/dataset.h"

namespace telar {

/// Keeps every sample in memory when it is first read, so later epochs only copy. Uses size() times the bytes
/// of a sample, but at most `capacity_bytes`; samples beyond that are read again each time. If two threads
/// read a sample for the first time at once, both read it from the source. Throws Error (user) for data that
/// differs from epoch to epoch (put `augmented` around `cached`, not inside).
DatasetPtr cached(DatasetPtr data, uint64_t capacity_bytes = UINT64_MAX);

}  // namespace telar
