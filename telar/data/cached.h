#pragma once

#include "telar/data/dataset.h"

namespace telar {

/// Keeps every sample in memory as it was first read, so that the next epochs only copy. Memory: size() times
/// the bytes of a sample, but at most `capacity_bytes`; samples beyond that are read anew each time. Samples
/// that are being read for the first time by two threads are simply read twice. Throws Error (user) for data
/// that differs from epoch to epoch (put `augmented` around `cached`, not inside).
DatasetPtr cached(DatasetPtr data, uint64_t capacity_bytes = UINT64_MAX);

}  // namespace telar
