#pragma once

#include "store_input.h"
#include "telar/comm/store/store_memory.h"

// The part of fuzz/store_memory.cpp that does not need libFuzzer, so that a test can run it on the corpus.

namespace telar::fuzz {

/// Puts requests into shared memory and lets a server take them. Each consists of two bytes for its length
/// and the bytes of that length: a header without its checksum, and the ids of members, which need not be as
/// many as the header says. Returns the number of answers. Throws Error (user) where the server would end the
/// connection.
inline size_t serve_requests(std::span<const uint8_t> input) {
  constexpr size_t kFields = offsetof(FrameHeader, checksum);
  constexpr size_t kMostRequests = 16;
  static const std::shared_ptr<StoreMemory> memory = StoreMemory::make(Server::kFloats);
  if (!memory) throw run_error("this system has no memory to share");
  memory->begin();
  for (size_t i = 0; i < kMostRequests && input.size() >= 2; ++i) {
    const size_t wanted = input[0] | static_cast<size_t>(input[1]) << 8U;
    const auto rest = input.subspan(2);
    const auto bytes = rest.first(std::min(wanted, rest.size()));
    input = rest.subspan(bytes.size());
    if (bytes.size() < kFields) break;
    FrameHeader header;
    std::memcpy(static_cast<void*>(&header), bytes.data(), kFields);
    std::vector<uint32_t> members(std::min((bytes.size() - kFields) / sizeof(uint32_t), kMostRoundMembers));
    if (!members.empty())
      std::memcpy(members.data(), bytes.data() + kFields, members.size() * sizeof(uint32_t));
    memory->put_request(header, members);
  }
  Server().serve(*memory);
  size_t answers = 0;
  while (memory->take_answer()) ++answers;
  return answers;
}

}  // namespace telar::fuzz
