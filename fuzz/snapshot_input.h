#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <sstream>
#include <string>

#include "store_input.h"
#include "telar/comm/store/store_snapshot.h"
#include "telar/io/checksum.h"

// The part of fuzz/snapshot.cpp that does not need libFuzzer, so that a test can run it on the corpus.

namespace telar::fuzz {

/// Reads a snapshot as a parameter server does when it starts. Throws Error (user) where the server would
/// refuse it. Returns the floats of an arena.
inline size_t read_snapshot(const std::string& bytes) {
  StoreSnapshot snapshot(std::make_unique<std::istringstream>(bytes), bytes.size(), "the snapshot");
  const StoreLayout& layout = snapshot.identity().layout;
  StoreMembers members(std::chrono::seconds(5));
  StoreBlocks blocks(layout, std::make_unique<Nudge>(), members, 2 * kBlockFloats * sizeof(float));
  if (blocks.slots() != snapshot.slots()) throw user_error("its optimizer has other state here");
  snapshot.read_into(blocks);
  return layout.floats;
}

/// Turns an input into a snapshot with correct checksums, which no fuzzer would find: two bytes for the
/// length of the JSON text, the text, and the bytes of the only block.
inline std::string sealed_snapshot(std::span<const uint8_t> input) {
  if (input.size() < 2) return {};
  const size_t wanted = input[0] | static_cast<size_t>(input[1]) << 8U;
  const auto rest = input.subspan(2);
  const uint64_t length = std::min(wanted, rest.size());
  std::string bytes = "TELARSTORE 3\n";
  Checksum checksum;
  const auto add = [&](const void* data, size_t size) {
    checksum.add({static_cast<const std::byte*>(data), size});
    bytes.append(static_cast<const char*>(data), size);
  };
  const auto seal = [&] {
    const uint64_t value = checksum.value();
    bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
  };
  checksum.add(std::as_bytes(std::span(bytes)));
  add(&length, sizeof(length));
  add(rest.data(), length);
  seal();
  add(rest.data() + length, rest.size() - length);
  seal();
  return bytes;
}

}  // namespace telar::fuzz
