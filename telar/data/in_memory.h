#pragma once

#include "telar/data/dataset.h"
#include "telar/data/files.h"

namespace telar {

/// Samples in memory, stored as read() returns them. The features of sample i are at `offset + i *
/// spec.feature_bytes()` of `features`, its label is at `i * spec.label_bytes()` of `labels`. The size of
/// `labels` determines the number of samples. Used for CSV and npy files.
DatasetPtr in_memory(SampleSpec spec, Bytes features, size_t offset, Bytes labels);

/// Copies a vector of numbers to bytes, for in_memory.
template <typename T>
Bytes bytes_of(const std::vector<T>& values) {
  const auto* begin = reinterpret_cast<const uint8_t*>(values.data());
  return Bytes(begin, begin + values.size() * sizeof(T));
}

}  // namespace telar
