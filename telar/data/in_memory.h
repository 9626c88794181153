#pragma once

#include "telar/data/dataset.h"
#include "telar/data/files.h"

namespace telar {

/// Samples kept in memory in the form in which they are read: features of sample i at
/// `offset + i * spec.feature_bytes()` of `features`, labels at `i * spec.label_bytes()` of `labels`, whose
/// size gives the number of samples. CSV and npy files are this.
DatasetPtr in_memory(SampleSpec spec, Bytes features, size_t offset, Bytes labels);

/// The bytes of a vector of numbers, for in_memory.
template <typename T>
Bytes bytes_of(const std::vector<T>& values) {
  const auto* begin = reinterpret_cast<const uint8_t*>(values.data());
  return Bytes(begin, begin + values.size() * sizeof(T));
}

}  // namespace telar
