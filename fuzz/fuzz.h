#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "telar/core/error.h"
#include "telar/data/dataset.h"

namespace telar::fuzz {

/// Splits an input into two files: the first two bytes are the length of the first file.
struct TwoFiles {
  std::vector<uint8_t> first;
  std::vector<uint8_t> second;
};

inline TwoFiles two_files(const uint8_t* data, size_t size) {
  if (size < 2) return {};
  const size_t wanted = data[0] | static_cast<size_t>(data[1]) << 8U;
  const size_t length = wanted < size - 2 ? wanted : size - 2;
  const uint8_t* begin = data + 2;
  return {{begin, begin + length}, {begin + length, data + size}};
}

/// Opens a dataset and reads its first and last sample. Throwing Error is the correct response to a bad file.
template <typename Open>
void read_ends(Open open) {
  try {
    const DatasetPtr data = open();
    const SampleSpec& spec = data->spec();
    std::vector<std::byte> features(spec.feature_bytes());
    std::vector<std::byte> label(spec.label_bytes());
    for (const int64_t index : {int64_t{0}, data->size() - 1}) data->read(index, {}, features, label);
  } catch (const Error&) {
    return;
  }
}

}  // namespace telar::fuzz
