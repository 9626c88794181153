#include <gtest/gtest.h>

#include <random>

#include "../../fuzz/store_input.h"
#include "support/corpus.h"

// Runs the fuzzer's corpus without the fuzzer, because scripts/fuzz needs clang and takes minutes.

namespace telar {
namespace {

std::vector<uint8_t> frames_seed(const std::string& name) { return test::corpus("store", name); }

std::string refusal(const std::string& name) {
  try {
    fuzz::serve_frames(frames_seed(name));
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(StoreInput, ServesValidFrames) {
  EXPECT_EQ(fuzz::serve_frames(frames_seed("push_and_pull")), 2U);
  EXPECT_EQ(fuzz::serve_frames(frames_seed("push_again")), 2U);
  EXPECT_EQ(fuzz::serve_frames(frames_seed("read_and_write")), 3U);
  EXPECT_EQ(fuzz::serve_frames(frames_seed("round_alone")), 3U);
}

TEST(StoreInput, EachInvalidFrameHasAnErrorMessage) {
  const std::vector<std::pair<std::string, std::string>> wrong{
      {"other_ranges_in_a_round", "must start the same ranges"},
      {"round_of_others", "member 1 is not in round 1"},
      {"member_twice", "a member is listed twice"},
      {"too_many_members", "its round has 4294967295 members"},
      {"beyond_the_arena", "the arenas have 64"},
      {"no_range", "are not a range"},
      {"huge_range", "are not within one block"},
      {"no_such_arena", "arena 7 was requested, but there are 2"},
      {"an_answer", "is not for a server"},
      {"a_welcome", "is not for a server"},
      {"not_a_number", "is not a finite number"},
      {"cut", "bytes instead of"}};
  for (const auto& [name, sentence] : wrong)
    EXPECT_NE(refusal(name).find(sentence), std::string::npos) << name << ": " << refusal(name);
}

TEST(StoreInput, DamagedFramesAreServedOrRefused) {
  std::mt19937 random(7);
  for (const char* name : {"push_and_pull", "read_and_write", "push_again", "no_such_arena", "an_answer"}) {
    const std::vector<uint8_t> good = frames_seed(name);
    for (int i = 0; i < 200; ++i) {
      std::vector<uint8_t> bytes = good;
      for (int changes = 1 + i % 3; changes > 0; --changes)
        bytes[random() % bytes.size()] = static_cast<uint8_t>(random());
      bytes.resize(bytes.size() - (i % 5 == 0 ? random() % bytes.size() : 0));
      try {
        fuzz::serve_frames(bytes);
      } catch (const Error& error) {
        EXPECT_STRNE(error.what(), "");
      }
    }
  }
}

}  // namespace
}  // namespace telar
