#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>

#include "telar/comm/members/requests.h"
#include "telar/comm/printable.h"
#include "telar/core/error.h"

// The part of fuzz/members.cpp that does not need libFuzzer, so that a test can run it on the corpus.

namespace telar::fuzz {

/// Counts of the messages of an input.
struct Heard {
  size_t messages = 0;  ///< messages that were carried out
  size_t refused = 0;   ///< messages refused with an Error, whose member was then removed
  size_t answers = 0;   ///< answers to members
};

/// Throws std::logic_error if a text could do more than appear in a log.
inline void check_printable(const std::string& text) {
  for (const char c : text)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) throw std::logic_error("not printable");
}

/// Passes messages of three members to a coordinator. The first byte selects rhythm, backups, staleness
/// bound, and whether steps come to exist one after another. Each message consists of one byte for its
/// member, one byte for its length, and the bytes of that length. A refused member joins again, as a process
/// would.
inline Heard hear(std::span<const uint8_t> input) {
  constexpr size_t kMostMessages = 64;
  constexpr size_t kMembers = 3;
  Heard heard;
  if (input.empty()) return heard;
  const uint8_t choice = input[0];
  CoordinatorOptions options{.job = "job", .workers = 2, .parts = 2, .sizes = {.lease = 2}};
  options.rhythm = (choice & 1U) != 0 ? Rhythm::rounds : Rhythm::free;
  options.backups = (choice & 2U) != 0 ? 1 : 0;
  options.staleness_bound = (choice & 4U) != 0 ? 1 : -1;
  MemberRegistry registry(options);
  MemberRegistry::Time now{};
  uint32_t members[kMembers];
  for (uint32_t& member : members) member = registry.join("member");
  const auto begin_epoch = [&](uint32_t epoch) {
    const bool exists = (choice & 8U) == 0;
    registry.begin_epoch(epoch, 0, 4, exists ? "" : "place");
    if (!exists) registry.extend({"a", "b", "c", "d"});
  };
  begin_epoch(0);
  input = input.subspan(1);
  for (size_t m = 0; input.size() >= 2 && m < kMostMessages; ++m) {
    uint32_t& member = members[input[0] % kMembers];
    const auto rest = input.subspan(2);
    const auto bytes = rest.first(std::min<size_t>(input[1], rest.size()));
    input = rest.subspan(bytes.size());
    members::Request request;
    // Bytes that are not a message never reach the coordinator: gRPC ends the stream.
    if (!request.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) break;
    now += std::chrono::milliseconds(100);
    try {
      if (carry_out(registry, member, now, request)) {
        ++heard.messages;
      } else if (request.has_leave()) {
        registry.remove(member);
        member = registry.join("next");
      } else {
        // Their texts go to the log and to terminals.
        check_printable(printable(request.has_hello() ? request.hello().name() : request.failure()));
      }
    } catch (const Error&) {
      ++heard.refused;
      registry.remove(member);
      member = registry.join("again");
    }
    registry.tick(now);
    heard.answers += registry.take_answers().size();
    registry.take_steps();
    registry.take_news();
    if (registry.epoch_finished()) begin_epoch(1);
  }
  for (const uint32_t member : members) registry.remove(member);
  return heard;
}

}  // namespace telar::fuzz
