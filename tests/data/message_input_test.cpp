#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "../../fuzz/message_avro_input.h"
#include "../../fuzz/message_input.h"
#include "../../fuzz/message_protobuf_input.h"
#include "support/paths.h"
#include "support/sanitizers.h"
#include "telar/core/random.h"

namespace telar::test {
namespace {

/// Damages the seeds of a fuzz target at random; returns how many there are.
int read_damaged_seeds(const std::string& corpus, bool (*read)(std::string_view)) {
  constexpr int kEach = kSanitized ? 500 : 5000;
  RandomSequence random(1, 1);
  int seeds = 0;
  for (const auto& entry : std::filesystem::directory_iterator(fuzz_corpus() + "/" + corpus)) {
    std::ifstream file(entry.path(), std::ios::binary);
    const std::string seed{std::istreambuf_iterator<char>(file), {}};
    EXPECT_TRUE(read(seed)) << entry.path() << ": the seeds are valid";
    ++seeds;
    for (int i = 0; i < kEach; ++i) {
      std::string input = seed;
      const auto at = [&] {
        return static_cast<size_t>(random.uniform() * static_cast<float>(input.size() - 1));
      };
      for (int changes = 0; changes < 1 + i % 4; ++changes)
        input[at()] = static_cast<char>(random.uniform() * 255);
      if (i % 3 == 0) input.resize(at() + 1);
      read(input);
    }
  }
  return seeds;
}

TEST(MessageInput, DamagedMessagesAreRefusedOrReadButDoNoHarm) {
  EXPECT_EQ(read_damaged_seeds("message", fuzz::read_message), 9);
  EXPECT_EQ(read_damaged_seeds("message_avro", fuzz::read_avro), 3);
  EXPECT_EQ(read_damaged_seeds("message_protobuf", fuzz::read_protobuf), 3);
}

}  // namespace
}  // namespace telar::test
