#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "telar/comm/members/requests.h"
#include "telar/core/error.h"

// What fuzz/members.cpp does with an input, apart from libFuzzer, so that a test can do the same with its corpus.

namespace telar::fuzz {

/// What became of the messages of an input.
struct Heard {
  size_t messages = 0;  ///< that were carried out
  size_t refused = 0;   ///< answered by a sentence, and their member removed
  size_t answers = 0;   ///< that members got
};

/// A coordinator of three members gets what they say: the first byte chooses rhythm, backups and staleness bound; each message is one
/// byte for who says it, one with its length, and so many bytes. A member that is refused joins again, as a process would.
inline Heard hear(std::span<const uint8_t> input) {
  constexpr size_t kMostMessages = 64;
  constexpr size_t kMembers = 3;
  Heard heard;
  if (input.empty()) return heard;
  const uint8_t choice = input[0];
  CoordinatorOptions options{.job = "job", .workers = 2, .parts = 2, .lease_steps = 2};
  options.rhythm = (choice & 1U) != 0 ? Rhythm::rounds : Rhythm::free;
  options.backups = (choice & 2U) != 0 ? 1 : 0;
  options.staleness_bound = (choice & 4U) != 0 ? 1 : -1;
  MemberRegistry registry(options);
  MemberRegistry::Time now{};
  uint32_t members[kMembers];
  for (uint32_t& member : members) member = registry.join("member");
  registry.begin_epoch(0, 0, 4);
  input = input.subspan(1);
  for (size_t m = 0; input.size() >= 2 && m < kMostMessages; ++m) {
    uint32_t& member = members[input[0] % kMembers];
    const auto rest = input.subspan(2);
    const auto bytes = rest.first(std::min<size_t>(input[1], rest.size()));
    input = rest.subspan(bytes.size());
    members::Request request;
    // What is no message never comes to the coordinator: gRPC ends the stream.
    if (!request.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) break;
    now += std::chrono::milliseconds(100);
    try {
      heard.messages += carry_out(registry, member, now, request) ? 1 : 0;
    } catch (const Error&) {
      ++heard.refused;
      registry.remove(member);
      member = registry.join("again");
    }
    registry.tick(now);
    heard.answers += registry.take_answers().size();
    registry.take_steps();
    registry.take_news();
    if (registry.epoch_finished()) registry.begin_epoch(1, 0, 4);
  }
  for (const uint32_t member : members) registry.remove(member);
  return heard;
}

}  // namespace telar::fuzz
