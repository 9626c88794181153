#include "telar/comm/store/local_store.h"

#include <cstring>
#include <map>

#include "store_fixture.h"
#include "support/sentences.h"
#include "telar/comm/store/store_frame.h"

namespace telar {
namespace {

using test::expect_error;

/// More than two blocks.
constexpr size_t kLocalFloats = 600'000;

std::unique_ptr<Store> local_member(LocalStoreServer& server, uint32_t id, std::stop_token stop = {}) {
  auto store = server.connect(id, std::move(stop));
  store->create(layout_of(kLocalFloats), "plain");
  store->attach();
  return store;
}

TEST(LocalStore, APushIsAppliedAndThePullSeesIt) {
  LocalStoreServer server(plain_updates());
  const auto store = local_member(server, 1);
  store->write("", std::vector<float>(kLocalFloats, 10), 41);
  std::ranges::fill(store->outgoing(), 4);
  store->start({.begin = 0, .end = kLocalFloats, .learning_rate = 0.5F, .samples = 2});
  EXPECT_TRUE(store->finish().finite);
  EXPECT_EQ(store->incoming().front(), 9);
  EXPECT_EQ(store->incoming().back(), 9);
  std::vector<float> steps(kLocalFloats);
  store->read("steps", steps);
  EXPECT_EQ(steps.back(), 42) << "the number of the update";
  EXPECT_EQ(store->slots(), std::vector<std::string>{"steps"});
}

TEST(LocalStore, ReportsStalenessAndWhatIsNotFinite) {
  LocalStoreServer server(plain_updates());
  const auto one = local_member(server, 1);
  const auto two = local_member(server, 2);
  const StoreExchange all{.begin = 0, .end = kLocalFloats, .learning_rate = 1, .samples = 1};
  for (Store* store : {one.get(), two.get()}) {
    store->start({.begin = 0, .end = kLocalFloats, .push = false});
    store->finish();
  }
  one->start(all);
  EXPECT_EQ(one->finish().staleness, 0);
  two->outgoing()[5] = std::numeric_limits<float>::infinity();
  two->start(all);
  const StoreReport report = two->finish();
  EXPECT_EQ(report.staleness, 1);
  EXPECT_FALSE(report.finite);
}

TEST(LocalStore, AWorkIsAppliedOnceToEachRangeWhoeverPushesIt) {
  LocalStoreServer server(plain_updates());
  const auto killed = local_member(server, 1);
  const auto other = local_member(server, 2);
  const auto push = [](Store& store, size_t end, float value, int64_t work) {
    std::ranges::fill(store.outgoing(), value);
    store.start({.begin = 0, .end = end, .learning_rate = 1, .samples = 1, .work = work});
    return store.finish();
  };
  push(*killed, kBlockFloats, 1, 7);  // it dies in the middle of its push
  push(*other, kLocalFloats, 10, 8);
  EXPECT_FALSE(push(*other, kLocalFloats, 1, 7).late) << "for the member it is done";
  EXPECT_EQ(other->incoming()[0], -11);
  EXPECT_EQ(other->incoming()[kBlockFloats], -11);
  push(*killed, kLocalFloats, 5, 8);
  EXPECT_EQ(killed->incoming()[kBlockFloats], -11);
  for (int i = 0; i < 2; ++i) push(*other, kLocalFloats, 100, 0);
  EXPECT_EQ(other->incoming()[0], -211) << "without a number each push counts";
  other->write("", std::vector<float>(kLocalFloats, 0), 0);
  push(*other, kLocalFloats, 3, 7);
  EXPECT_EQ(other->incoming()[0], -3) << "another training has numbers of its own";
}

TEST(LocalStore, APushWithoutSamplesChangesNothingButCountsAsAnUpdate) {
  LocalStoreServer server(plain_updates());
  const auto store = local_member(server, 1);
  const auto push = [&](float value, float samples) {
    std::ranges::fill(store->outgoing(), value);
    store->start({.begin = 0, .end = kLocalFloats, .learning_rate = 1, .samples = samples});
    EXPECT_TRUE(store->finish().finite);
  };
  push(4, 2);
  push(0, 0);
  EXPECT_EQ(store->incoming().front(), -2);
  push(0, 1);
  EXPECT_EQ(store->incoming().front(), -2);
  std::vector<float> steps(kLocalFloats);
  store->read("steps", steps);
  EXPECT_EQ(steps.back(), 3);
}

TEST(LocalStore, APieceOfWorkIsAppliedInOneRoundOnly) {
  LocalStoreServer server(plain_updates());
  std::map<uint32_t, std::unique_ptr<Store>> members;
  for (const uint32_t id : {1U, 2U}) members[id] = local_member(server, id);
  int64_t number = 0;
  const auto round = [&](int64_t work, const std::map<uint32_t, float>& pushes, float samples) {
    ++number;
    for (const auto& [id, push] : pushes) {
      std::ranges::fill(members[id]->outgoing(), push);
      members[id]->start({.begin = 0,
                          .end = kLocalFloats,
                          .learning_rate = 1,
                          .samples = samples,
                          .work = work,
                          .round = StoreRound{.number = number, .members = {1, 2}}});
    }
    for (const auto& [id, push] : pushes) EXPECT_FALSE(members[id]->finish().late);
    EXPECT_EQ(members[1]->incoming().front(), members[1]->incoming().back());
    return members[1]->incoming().front();
  };
  EXPECT_EQ(round(1, {{1, 4}, {2, 8}}, 2), -3);
  EXPECT_EQ(round(1, {{1, 4}, {2, 8}}, 2), -3) << "again";
  EXPECT_EQ(round(2, {{1, 2}, {2, 2}}, 2), -4);
  EXPECT_EQ(round(3, {{1, 0}, {2, 0}}, 0), -4) << "no samples, so no mean";
  std::vector<float> steps(kLocalFloats);
  members[1]->read("steps", steps);
  EXPECT_EQ(steps.back(), 2) << "updates";
}

TEST(LocalStore, ARoundSumsInTheOrderOfMembers) {
  LocalStoreServer server(plain_updates());
  const auto contribution = [](uint32_t member, size_t i) {
    return (static_cast<float>(i % 97) + 0.1F) * std::pow(10.0F, static_cast<float>(member) - 2.0F);
  };
  std::map<uint32_t, std::unique_ptr<Store>> members;
  for (const uint32_t id : {2U, 1U, 3U}) {
    members[id] = local_member(server, id);
    for (size_t i = 0; i < kLocalFloats; ++i) members[id]->outgoing()[i] = contribution(id, i);
    members[id]->start({.begin = 0,
                        .end = kLocalFloats,
                        .learning_rate = 1,
                        .samples = 1,
                        .round = StoreRound{.number = 1, .members = {3, 1, 2}}});
  }
  for (const auto& [id, store] : members) EXPECT_FALSE(store->finish().late);
  for (size_t i = 0; i < kLocalFloats; ++i) {
    float sum = contribution(3, i);
    sum += contribution(1, i);
    sum += contribution(2, i);
    ASSERT_EQ(members[2]->incoming()[i], 0.0F - 1.0F * (sum / 3)) << i;
  }
}

TEST(LocalStore, ARoundWithoutAMemberThatHasLeftChangesNothing) {
  LocalStoreServer server(plain_updates());
  const auto one = local_member(server, 1);
  {
    const auto two = local_member(server, 2);
    two->start({.begin = 0, .end = kLocalFloats, .push = false});
    two->finish();
  }
  std::ranges::fill(one->outgoing(), 6);
  StoreExchange exchange{.begin = 0,
                         .end = kLocalFloats,
                         .learning_rate = 1,
                         .samples = 3,
                         .work = 7,
                         .round = StoreRound{.number = 1, .members = {1, 2}}};
  one->start(exchange);
  EXPECT_TRUE(one->finish().late);
  EXPECT_EQ(one->incoming().front(), 0);
  exchange.round = StoreRound{.number = 2, .members = {1}};
  one->start(exchange);
  EXPECT_FALSE(one->finish().late);
  EXPECT_EQ(one->incoming().front(), -2) << "the same piece of work in another round";
}

TEST(LocalStore, AStopEndsTheWaitForARound) {
  LocalStoreServer server(plain_updates());
  std::stop_source stop;
  const auto one = local_member(server, 1, stop.get_token());
  const auto two = local_member(server, 2);
  two->start({.begin = 0, .end = kLocalFloats, .push = false});
  two->finish();
  one->start({.begin = 0,
              .end = kLocalFloats,
              .learning_rate = 1,
              .samples = 1,
              .round = StoreRound{.number = 1, .members = {1, 2}}});
  std::thread later([&] { stop.request_stop(); });
  expect_error([&] { one->finish(); }, {"the run is being stopped"}, Error::Kind::run);
  later.join();
}

TEST(LocalStore, RefusesWhatAServerRefuses) {
  LocalStoreServer server(plain_updates());
  const auto store = server.connect(1);
  expect_error([&] { store->create(layout_of(64), "fancy"); }, {"the optimizer 'fancy' is unknown"});
  EXPECT_TRUE(store->create(layout_of(64), "plain"));
  EXPECT_FALSE(store->create(layout_of(64), "plain"));
  expect_error([&] { store->create(layout_of(128), "plain"); }, {"this server holds other parameters"});
  expect_error([&] { store->start({.begin = 0, .end = 16}); }, {"before attach()"}, Error::Kind::run);
  store->attach();
  expect_error([&] { store->start({.begin = 0, .end = 80}); }, {"holds 64 floats; 0 to 80"},
               Error::Kind::run);
  std::vector<float> values(64);
  expect_error([&] { store->read("momentum", values); }, {"has no arena 'momentum'"}, Error::Kind::run);
  store->start({.begin = 0, .end = 64, .samples = 1, .round = StoreRound{.number = 1, .members = {2, 3}}});
  expect_error([&] { store->finish(); }, {"member 1 is not in round 1"});
}

}  // namespace
}  // namespace telar
