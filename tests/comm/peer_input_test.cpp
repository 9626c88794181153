#include <gtest/gtest.h>

#include <random>

#include "../../fuzz/greeting_input.h"
#include "../../fuzz/membership_input.h"
#include "../../fuzz/peer_input.h"
#include "../../fuzz/store_calls_input.h"
#include "../../fuzz/store_client_input.h"
#include "../../fuzz/store_memory_input.h"
#include "support/corpus.h"
#include "support/sentences.h"

// Runs the fuzzers' corpora without the fuzzer, because scripts/fuzz needs clang and takes minutes.

namespace telar {
namespace {

/// What refuses an input; empty: it is accepted.
template <typename Read>
std::string refusal_of(const std::string& target, const std::string& name, Read read) {
  try {
    read(test::corpus(target, name));
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

using Refusals = std::vector<std::pair<std::string, std::string>>;

template <typename Read>
void expect_refused(const std::string& target, const Refusals& wrong, Read read) {
  for (const auto& [name, sentence] : wrong) {
    const std::string refusal = refusal_of(target, name, read);
    EXPECT_NE(refusal.find(sentence), std::string::npos) << target << "/" << name << ": " << refusal;
  }
}

/// Changed bytes and truncations end nothing.
template <typename Read>
void damage(const std::string& target, const std::string& name, Read read) {
  std::mt19937 random(7);
  const std::vector<uint8_t> good = test::corpus(target, name);
  for (int i = 0; i < 500; ++i) {
    std::vector<uint8_t> bytes = good;
    for (int changes = 1 + i % 3; changes > 0; --changes)
      bytes[random() % bytes.size()] = static_cast<uint8_t>(random());
    if (i % 5 == 0) bytes.resize(random() % bytes.size());
    try {
      read(bytes);
    } catch (const Error& error) {
      EXPECT_STRNE(error.what(), "");
    }
  }
}

TEST(PeerInput, AWrongIntroductionIsRefusedWithItsReason) {
  peers::Introduction good;
  good.set_group(std::string(32, 'g'));
  good.set_rank(1);
  good.add_members()->set_address("10.0.0.1:1");
  good.add_members()->set_address("10.0.0.2:1");
  const auto read = [](const peers::Introduction& introduction) {
    const std::string text = introduction.SerializeAsString();
    return fuzz::introduced({reinterpret_cast<const uint8_t*>(text.data()), text.size()});
  };
  EXPECT_EQ(read(good).rank(), 1U);
  const auto refusal = [&](const auto& change) -> std::string {
    peers::Introduction wrong = good;
    change(wrong);
    try {
      read(wrong);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_TRUE(test::says(refusal([](auto& one) { one.clear_members(); }), "a group of 0 processes"));
  EXPECT_TRUE(test::says(refusal([](auto& one) { one.set_rank(2); }), "the rank 2 of 2 processes"));
  EXPECT_TRUE(test::says(refusal([](auto& one) { one.set_rank(0); }), "the rank 0 of 2 processes"));
  EXPECT_TRUE(test::says(refusal([](auto& one) { one.clear_group(); }), "no secret of the group"));
  EXPECT_TRUE(test::says(refusal([](auto& one) { one.mutable_members(1)->set_address("x"); }),
                         "a wrong address of rank 1"));
}

TEST(PeerInput, DamagedFramesEndAConnectionWithAReason) {
  damage("peer", "messages", [](const std::vector<uint8_t>& bytes) { fuzz::serve_peer(bytes); });
  fuzz::serve_peer(test::corpus("peer", "messages"));
  fuzz::serve_peer(test::corpus("peer", "goodbye_too_early"));
  fuzz::serve_peer({});
}

TEST(GreetingInput, OnlyTheProofIsAccepted) {
  const auto greet = [](const char* name) { return fuzz::greet(test::corpus("greeting", name)); };
  EXPECT_EQ(greet("good"), Greeting::accepted);
  EXPECT_EQ(greet("wrong_token"), Greeting::wrong_token);
  EXPECT_EQ(greet("no_proof"), Greeting::wrong_token);
  for (const char* name : {"http2", "tls", "more_than_the_greeting", "too_long"})
    EXPECT_EQ(greet(name), Greeting::none) << name;
  damage("greeting", "good", [](std::span<const uint8_t> bytes) { fuzz::greet(bytes); });
}

TEST(StoreCallsInput, LayoutsAndOpeningsAreChecked) {
  const auto call = [](const char* name) { return fuzz::call_store(test::corpus("store_calls", name)); };
  for (const char* name : {"create", "create_nothing", "chain", "describe", "open"})
    EXPECT_EQ(call(name), "") << name;
  for (const char* name : {"create_too_much", "create_sum_overflows", "describe_too_much"})
    EXPECT_NE(call(name).find("a parameter server cannot hold"), std::string::npos) << call(name);
  for (const char* name : {"open_without_member", "open_with_text", "open_beyond_32_bits"})
    EXPECT_EQ(call(name), "the stream was opened without a valid telar-member") << name;
  for (const char* name :
       {"chain_without_an_address", "chain_of_one_server_twice", "chain_before_it_was_founded"})
    EXPECT_NE(call(name).find("the chain of shard 1"), std::string::npos) << call(name);
  for (const char* name : {"create", "chain", "describe", "open"})
    damage("store_calls", name, [](std::span<const uint8_t> bytes) { fuzz::call_store(bytes); });
}

TEST(StoreClientInput, AClientUsesWhatAServerMaySend) {
  const auto client = [](const char* name) {
    return fuzz::receive_frames(test::corpus("store_client", name));
  };
  EXPECT_EQ(client("session").answers(), 8U);
  EXPECT_EQ(client("session").floats()[0], 6);
  EXPECT_EQ(client("session").floats()[63], 5);
  EXPECT_EQ(client("shared_memory").answers(), 4U);
  EXPECT_EQ(client("answer_twice").answers(), 8U) << "of a request that was sent twice";
  EXPECT_EQ(client("restart").losses(), (StoreLosses{.restarts = 1, .updates = 4, .unknown = 0}));
  EXPECT_EQ(client("restart_without_count").losses(),
            (StoreLosses{.restarts = 1, .updates = 0, .unknown = 1}));
}

TEST(StoreClientInput, AClientRefusesTheRest) {
  const auto read = [](std::span<const uint8_t> bytes) { fuzz::receive_frames(bytes); };
  expect_refused("store_client",
                 {{"no_welcome_message", "a damaged welcome"},
                  {"welcome_without_start", "a damaged welcome"},
                  {"negative_version", "a damaged welcome"},
                  {"huge_losses", "a damaged welcome"},
                  {"versions_missing", "a damaged welcome"},
                  {"without_request", "an answer without a request"},
                  {"other_range", "an answer for another range than requested"},
                  {"without_floats", "an answer without the requested floats"},
                  {"floats_not_requested", "floats that were not requested"},
                  {"a_request", "a request, which only clients may send"},
                  {"no_version", "its floats have version -5"},
                  {"no_staleness", "its staleness is nan"}},
                 read);
  for (const char* name : {"session", "shared_memory", "restart"}) damage("store_client", name, read);
}

TEST(StoreMemoryInput, AServerServesExchangesOnly) {
  const auto read = [](std::span<const uint8_t> bytes) { return fuzz::serve_requests(bytes); };
  EXPECT_EQ(read(test::corpus("store_memory", "exchanges")), 2U);
  EXPECT_EQ(read(test::corpus("store_memory", "round_alone")), 1U);
  expect_refused("store_memory",
                 {{"a_read", "is not an exchange of a range of the arenas"},
                  {"beyond_the_arena", "is not an exchange of a range of the arenas"},
                  {"too_many_members", "too many members"},
                  {"member_twice", "a member is listed twice"},
                  {"an_answer", "is not an exchange of a range of the arenas"},
                  {"not_a_number", "is not a finite number"}},
                 read);
  damage("store_memory", "exchanges", read);
  damage("store_memory", "round_alone", read);
}

TEST(MembershipInput, AMemberObeysItsCoordinator) {
  const fuzz::Obeyed obeyed = fuzz::take_replies(test::corpus("membership", "session"));
  EXPECT_EQ(obeyed.messages, 9U);
  EXPECT_EQ(obeyed.samples, 2U) << "one of two parts of two batches of two samples";
  EXPECT_EQ(obeyed.rounds, 1U);
}

TEST(MembershipInput, AMemberRefusesWhatNoCoordinatorSends) {
  const auto read = [](std::span<const uint8_t> bytes) { fuzz::take_replies(bytes); };
  expect_refused("membership",
                 {{"welcome_without_number", "a welcome without a number"},
                  {"no_address", "a parameter server's address that cannot be used"},
                  {"nothing", "a message that this release of telar does not know"},
                  {"lease_backwards", "a lease of part 1 of batches 2 to 1"},
                  {"negative_lease", "a lease of part 1 of batches -5 to 2"},
                  {"endless_lease", "batches in 0 pieces of work with 0 batches"},
                  {"works_of_other_batches", "a lease of 2 batches in 2 pieces of work with 1 batches"},
                  {"no_such_part", "an epoch has 4 batches of 2 parts here"},
                  {"round_of_others", "not possible for member 3"},
                  {"member_twice", "not possible for member 3"},
                  {"negative_round", "round -4"}},
                 read);
  damage("membership", "session", read);
}

}  // namespace
}  // namespace telar
