#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "../../fuzz/message_input.h"
#include "support/sanitizers.h"
#include "telar/core/random.h"

namespace telar::test {
namespace {

TEST(MessageInput, DamagedMessagesAreRefusedOrReadButDoNoHarm) {
  constexpr int kEach = kSanitized ? 500 : 5000;
  RandomSequence random(1, 1);
  int seeds = 0;
  for (const auto& entry : std::filesystem::directory_iterator(TELAR_CORPUS "/message")) {
    std::ifstream file(entry.path(), std::ios::binary);
    const std::string seed{std::istreambuf_iterator<char>(file), {}};
    EXPECT_TRUE(fuzz::read_message(seed)) << entry.path() << ": the seeds are valid";
    ++seeds;
    for (int i = 0; i < kEach; ++i) {
      std::string input = seed;
      const auto at = [&] {
        return static_cast<size_t>(random.uniform() * static_cast<float>(input.size() - 1));
      };
      for (int changes = 0; changes < 1 + i % 4; ++changes)
        input[at()] = static_cast<char>(random.uniform() * 255);
      if (i % 3 == 0) input.resize(at() + 1);
      fuzz::read_message(input);
    }
  }
  EXPECT_EQ(seeds, 9);
}

}  // namespace
}  // namespace telar::test
