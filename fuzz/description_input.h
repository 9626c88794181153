#pragma once

#include "run_files_input.h"
#include "telar/train/cluster_description.h"

// The part of fuzz/description.cpp that does not need libFuzzer, so that a test can run it on the corpus.

namespace telar::fuzz {

/// Reads a description as a worker does. Returns whether it is accepted.
inline bool read_description(std::span<const uint8_t> input) {
  return read_and_write(
      input, [](const std::string& text) { return cluster_description_from_json(text, "the coordinator"); },
      [](const ClusterDescription& description) { return to_json(description); });
}

}  // namespace telar::fuzz
