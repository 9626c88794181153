#include <gtest/gtest.h>

#include <random>

#include "../../fuzz/snapshot_input.h"
#include "support/corpus.h"
#include "support/sanitizers.h"

// Runs the fuzzer's corpus without the fuzzer, because scripts/fuzz needs clang and takes minutes.

namespace telar {
namespace {

std::string snapshot_seed(const std::string& name) {
  return fuzz::sealed_snapshot(test::corpus("snapshot", name));
}

std::string snapshot_refusal(const std::string& bytes) {
  try {
    fuzz::read_snapshot(bytes);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(SnapshotInput, ReadsWholeSnapshots) {
  EXPECT_EQ(fuzz::read_snapshot(snapshot_seed("good")), 64U);
  EXPECT_EQ(fuzz::read_snapshot(snapshot_seed("two_segments")), 64U);
  EXPECT_EQ(fuzz::read_snapshot(snapshot_seed("pieces_of_work")), 64U);
  EXPECT_EQ(fuzz::read_snapshot(snapshot_seed("not_a_number")), 64U) << "a server may hold infinities";
}

TEST(SnapshotInput, EachInvalidSnapshotHasAnErrorMessage) {
  const std::vector<std::pair<std::string, std::string>> wrong{
      {"gap_in_segments", "the segments of a block are wrong"},
      {"no_segments", "the segments of a block are wrong"},
      {"endless_segments", "the segments of a block are wrong"},
      {"negative_version", "the segments of a block are wrong"},
      {"pieces_of_work_out_of_order", "the pieces of work of a block are wrong"},
      {"bytes_behind_the_end", "the checksum of block 0"},
      {"no_json", "parse error"},
      {"no_pieces", "key 'pieces' not found"},
      {"negative_piece", "the size of a piece is -"},
      {"text_for_a_size", "the size of a piece is \""},
      {"fraction_for_a_size", "the size of a piece is 1.8446744073709552e+19"},
      {"huge_piece", "it is too short"},
      {"sum_of_pieces_overflows", "it is too short"},
      {"no_bytes_of_its_block", "it is too short"}};
  for (const auto& [name, sentence] : wrong) {
    const std::string refusal = snapshot_refusal(snapshot_seed(name));
    EXPECT_NE(refusal.find(sentence), std::string::npos) << name << ": " << refusal;
    EXPECT_NE(refusal.find("the snapshot is not a complete snapshot"), std::string::npos) << name;
  }
}

TEST(SnapshotInput, AnotherOptimizerIsNoDamage) {
  EXPECT_EQ(snapshot_refusal(snapshot_seed("other_slots")), "its optimizer has other state here");
}

TEST(SnapshotInput, NoDamagedSnapshotIsAccepted) {
  std::mt19937 random(11);
  const std::string good = snapshot_seed("pieces_of_work");
  for (int i = 0; i < (test::kSanitized ? 3'000 : 10'000); ++i) {
    std::string bytes = good;
    switch (random() % 5) {
      case 0: bytes.resize(random() % bytes.size()); break;
      case 1: bytes.insert(random() % bytes.size(), 1 + random() % 9, static_cast<char>(random())); break;
      case 2: bytes.erase(random() % bytes.size(), 1 + random() % 9); break;
      case 3: std::swap(bytes[random() % bytes.size()], bytes[random() % bytes.size()]); break;
      default:
        for (size_t changes = 1 + random() % 8; changes > 0; --changes)
          bytes[random() % bytes.size()] = static_cast<char>(random());
    }
    if (bytes == good) continue;
    EXPECT_NE(snapshot_refusal(bytes), "") << "input " << i;
  }
}

}  // namespace
}  // namespace telar
