#include <gtest/gtest.h>

#include <random>

#include "../../fuzz/members_input.h"
#include "support/corpus.h"

// Runs the fuzzer's corpus without the fuzzer, because scripts/fuzz needs clang and takes minutes.

namespace telar {
namespace {

std::vector<uint8_t> members_seed(const std::string& name) { return test::corpus("members", name); }

TEST(MembersInput, RepliesToWorkingMembers) {
  // Each member requests work and a lease, reports its two parts, and requests again.
  const fuzz::Heard free = fuzz::hear(members_seed("free"));
  EXPECT_EQ(free.messages, 10U);
  EXPECT_EQ(free.refused, 0U);
  EXPECT_EQ(free.answers, 6U);
  // The same, with a request for a round before each report.
  const fuzz::Heard rounds = fuzz::hear(members_seed("rounds"));
  EXPECT_EQ(rounds.messages, 10U);
  EXPECT_EQ(rounds.answers, 8U);
  const fuzz::Heard backups = fuzz::hear(members_seed("backups"));
  EXPECT_EQ(backups.messages, 13U);
  EXPECT_EQ(backups.answers, 11U) << "all but reports are answered";
  // The member of a later batch gets the part of one that has left, and then all parts are there.
  const fuzz::Heard turn = fuzz::hear(members_seed("turn"));
  EXPECT_EQ(turn.messages, 8U);
  EXPECT_EQ(turn.answers, 8U);
}

TEST(MembersInput, MembersComeAndGo) {
  const fuzz::Heard heard = fuzz::hear(members_seed("about_the_connection"));
  EXPECT_EQ(heard.messages, 2U);
  EXPECT_EQ(heard.refused, 0U);
  EXPECT_EQ(fuzz::hear(members_seed("given_back")).refused, 0U);
}

TEST(MembersInput, TextsOfMembersCannotControlATerminal) {
  EXPECT_EQ(printable("a\x1b[2J\nb\x7f"), "a?[2J?b?");
  EXPECT_EQ(printable("über", 10), "über");
  EXPECT_EQ(printable("aü", 2), "a…") << "no half of a character";
  EXPECT_EQ(printable(std::string(1000, 'x')), std::string(200, 'x') + "…");
}

TEST(MembersInput, InvalidMessagesAreRefusedOrIgnored) {
  EXPECT_EQ(fuzz::hear(members_seed("empty_request")).refused, 1U);
  EXPECT_EQ(fuzz::hear(members_seed("figures_that_cannot_be")).refused, 1U);
  const fuzz::Heard strange = fuzz::hear(members_seed("leases_of_nobody"));
  EXPECT_EQ(strange.messages, 3U);
  EXPECT_EQ(strange.refused + strange.answers, 0U);
}

TEST(MembersInput, DamagedMessagesEndNothing) {
  std::mt19937 random(7);
  for (const char* name : {"free", "rounds", "leases_of_nobody"}) {
    const std::vector<uint8_t> good = members_seed(name);
    for (int i = 0; i < 300; ++i) {
      std::vector<uint8_t> bytes = good;
      for (int changes = 1 + i % 4; changes > 0; --changes)
        bytes[random() % bytes.size()] = static_cast<uint8_t>(random());
      EXPECT_LE(fuzz::hear(bytes).messages, 64U);
    }
  }
}

}  // namespace
}  // namespace telar
