#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "telar/comm/members/replies.h"
#include "telar/core/error.h"
#include "telar/data/assignment.h"

// The part of fuzz/membership.cpp that does not need libFuzzer, so that a test can run it on the corpus.

namespace telar::fuzz {

/// What a member has done with the messages of an input.
struct Obeyed {
  size_t messages = 0;
  size_t samples = 0;  ///< of the leases, as the member would load them
  size_t rounds = 0;
};

/// Passes messages to a member of a job with 8 samples in batches of 2, each in 2 parts. A message consists
/// of one byte for its length and the bytes of that length. Throws Error where the member would end.
inline Obeyed take_replies(std::span<const uint8_t> input) {
  constexpr int64_t kSteps = 4;
  constexpr int64_t kParts = 2;
  constexpr size_t kMostMessages = 64;
  LeasedParts parts(8, 2, 0, false, kParts);
  Replies replies;
  Obeyed obeyed;
  while (!input.empty() && obeyed.messages < kMostMessages) {
    const auto rest = input.subspan(1);
    const auto bytes = rest.first(std::min<size_t>(input[0], rest.size()));
    input = rest.subspan(bytes.size());
    members::Reply reply;
    // Bytes that are not a message never reach the member: gRPC ends the stream.
    if (!reply.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) break;
    replies.take(reply);
    ++obeyed.messages;
    if (const auto round = std::exchange(replies.round, std::nullopt); round && !round->members.empty())
      ++obeyed.rounds;
    const auto answer = std::exchange(replies.lease, std::nullopt);
    if (!answer || !*answer) continue;
    const Lease& lease = **answer;
    check_lease(lease, kSteps, kParts);
    parts.clear();
    for (int64_t step = lease.begin; step < lease.end; ++step) parts.add(step, lease.part);
    for (int64_t step = 0; step < parts.steps(lease.epoch); ++step)
      obeyed.samples += parts.samples(lease.epoch, step).size();
  }
  return obeyed;
}

}  // namespace telar::fuzz
