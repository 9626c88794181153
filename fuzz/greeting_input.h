#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string_view>

#include "telar/comm/greeting.h"

// The part of fuzz/greeting.cpp that does not need libFuzzer, so that a test can run it on the corpus.

namespace telar::fuzz {

/// Judges bytes as a Door does while they arrive: first a half of them, then all. Throws std::logic_error if
/// they are accepted without the proof, or if more of them are read than a greeting may have.
inline Greeting greet(std::span<const uint8_t> input) {
  static const std::string proof = greeting_proof({.token = "0123456789abcdef"});
  const std::string_view all{reinterpret_cast<const char*>(input.data()),
                             input.size() < kLongestGreeting ? input.size() : kLongestGreeting};
  Greeting greeting = Greeting::incomplete;
  for (const std::string_view bytes : {all.substr(0, all.size() / 2), all}) {
    greeting = judge_greeting(bytes, proof);
    if (greeting != Greeting::incomplete) break;
  }
  if (greeting == Greeting::accepted && all.find(proof) == std::string_view::npos)
    throw std::logic_error("accepted without the proof");
  if (greeting == Greeting::incomplete && all.size() == kLongestGreeting)
    throw std::logic_error("waits for more than the longest greeting");
  if (greeting == Greeting::none && no_greeting_reason(all).empty())
    throw std::logic_error("refused without a reason");
  return greeting;
}

}  // namespace telar::fuzz
