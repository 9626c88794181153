#include <chrono>
#include <csignal>
#include <set>
#include <stop_token>
#include <thread>

#include "comm/members_support.h"

namespace telar::test {
namespace {

/// Runs a member on its own thread until the training ends.
std::jthread member_thread(const std::string& coordinator, const std::string& name, WorkerLoop& loop) {
  return std::jthread([&loop, options = member_options(coordinator, name)] {
    Membership membership(options);
    loop.run(membership);
  });
}

/// Waits until `count` members have joined. Without this wait, a short training may end before the last
/// thread runs, and that thread finds no coordinator.
void await_members(const Coordinator& coordinator, size_t count) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (coordinator.members().size() < count && std::chrono::steady_clock::now() < end)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

void run_together(int64_t workers, Rhythm rhythm, int64_t backups, int64_t bound) {
  Used used;
  std::vector<WorkerLoop> loops(static_cast<size_t>(workers + backups + 1),
                                {&used, rhythm == Rhythm::rounds, {}});
  CoordinatorOptions options = coordinator_options(workers, rhythm);
  options.backups = backups;
  options.staleness_bound = bound;
  std::vector<std::jthread> members;
  Coordinator coordinator(options);
  for (size_t i = 0; i < loops.size(); ++i)
    members.push_back(member_thread(coordinator.address(), std::to_string(i), loops[i]));
  await_members(coordinator, loops.size());
  for (uint32_t epoch = 0; epoch < 2; ++epoch) {
    const auto steps = steps_of_epoch(coordinator, epoch, 25);
    ASSERT_EQ(steps.size(), 25U);
    for (const StepDone& step : steps) {
      EXPECT_EQ(step.epoch, epoch);
      EXPECT_EQ(step.samples, 8 * workers);
      EXPECT_EQ(step.metrics, std::vector<double>{static_cast<double>(workers)});
    }
    EXPECT_EQ(coordinator.steps_done(), 25);
  }
  int64_t samples = 0;
  for (const MemberInfo& member : coordinator.members()) samples += member.samples;
  EXPECT_EQ(samples, 2 * 25 * 8 * workers);
  EXPECT_EQ(used.different(), static_cast<size_t>(2 * 25 * workers));
  EXPECT_EQ(used.most(), 1) << "without failures each part is used exactly once";
}

TEST(Members, InFreeRhythmEachPartIsUsedOnce) { run_together(3, Rhythm::free, 0, -1); }
TEST(Members, WithAStalenessBoundEachPartIsUsedOnce) { run_together(3, Rhythm::free, 0, 1); }
TEST(Members, InRoundsEachPartIsUsedOnce) {
  for (const int64_t workers : {2, 3, 4}) run_together(workers, Rhythm::rounds, 0, -1);
}
TEST(Members, WithBackupsEachPartIsUsedOnce) { run_together(2, Rhythm::rounds, 1, -1); }

TEST(Members, WithoutFailuresRoundTSumsThePartsOfBatchT) {
  constexpr int64_t kWorkers = 3;
  std::vector<WorkerLoop> loops(kWorkers, {nullptr, true, {}});
  std::mutex mutex;
  std::map<int64_t, std::set<std::pair<int64_t, int64_t>>> parts;  // by round: (step, part)
  for (WorkerLoop& loop : loops)
    loop.batch = [&](Membership&, const Lease& lease, int64_t step) {
      const std::lock_guard lock(mutex);
      parts[static_cast<int64_t>(loop.seen.size()) + 1].insert({step, lease.part});
    };
  {
    std::vector<std::jthread> members;
    Coordinator coordinator(coordinator_options(kWorkers, Rhythm::rounds));
    for (WorkerLoop& loop : loops) members.push_back(member_thread(coordinator.address(), "m", loop));
    await_members(coordinator, loops.size());
    steps_of_epoch(coordinator, 0, 10);
  }
  ASSERT_EQ(parts.size(), 10U);
  for (const auto& [round, summed] : parts)
    EXPECT_EQ(summed,
              (std::set<std::pair<int64_t, int64_t>>{{round - 1, 0}, {round - 1, 1}, {round - 1, 2}}));
  for (const WorkerLoop& loop : loops) {
    ASSERT_EQ(loop.seen.size(), 10U);
    for (size_t i = 0; i < 10; ++i) {
      EXPECT_EQ(loop.seen[i].number, static_cast<int64_t>(i) + 1);
      EXPECT_EQ(loop.seen[i].members, loops[0].seen[i].members) << "all members get the same list";
    }
  }
}

TEST(Members, AMemberReceivesTheJob) {
  Sentences sentences;
  CoordinatorOptions options = coordinator_options(1);
  options.tenures = {3, ~uint64_t{4}};
  options.say = sentences.writer();
  Coordinator coordinator(options);
  {
    Membership first(member_options(coordinator.address(), "first"));
    Membership second(member_options(coordinator.address(), "second\nline"));
    EXPECT_EQ(first.id(), 1U);
    EXPECT_EQ(second.id(), 2U);
    EXPECT_EQ(first.job(), "job-1");
    EXPECT_EQ(first.description(), "what it is");
    EXPECT_EQ(first.servers(), (std::vector<std::string>{"127.0.0.1:7001", "127.0.0.1:7002"}));
    EXPECT_EQ(first.tenures(), (std::vector<uint64_t>{3, ~uint64_t{4}}));
    EXPECT_FALSE(first.lost());
    EXPECT_EQ(coordinator.members().size(), 2U);
  }
  EXPECT_TRUE(sentences.wait_for("first joined as worker 1"));
  EXPECT_TRUE(sentences.wait_for("second?line joined as a spare"));
  EXPECT_TRUE(sentences.wait_for("first left"));
  EXPECT_TRUE(sentences.wait_for("second?line left"));
}

TEST(Members, ASpareTakesOverTheWorkOfAWorkerThatLeaves) {
  Sentences sentences;
  CoordinatorOptions options = coordinator_options(1);
  options.say = sentences.writer();
  Used used;
  WorkerLoop spare_loop{&used, false, {}};
  std::jthread spare;
  Coordinator coordinator(options);
  auto first = std::make_unique<Membership>(member_options(coordinator.address(), "first"));
  spare = member_thread(coordinator.address(), "spare", spare_loop);
  ASSERT_TRUE(sentences.wait_for("spare joined"));
  std::jthread leaver([&] {
    EXPECT_TRUE(first->wait_for_work());
    const auto lease = first->lease();
    first->done({.lease = lease->id, .step = lease->begin, .samples = 8, .metrics = {1}});
    first.reset();
  });
  EXPECT_EQ(steps_of_epoch(coordinator, 0, 10).size(), 10U);
  EXPECT_TRUE(sentences.wait_for("spare steps in"));
  EXPECT_EQ(used.different(), 9U) << "all but the one that the first member has done";
}

TEST(Members, AMemberThatJoinsLaterGetsWork) {
  CoordinatorOptions options = coordinator_options(2);
  std::atomic<bool> second_worked{false};
  std::vector<WorkerLoop> loops(2);
  loops[0].batch = [&](Membership&, const Lease&, int64_t step) {
    // The first member waits here until the second has worked.
    for (int i = 0; step >= 2 && !second_worked && i < 2000; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
  };
  loops[1].batch = [&](Membership&, const Lease&, int64_t) { second_worked = true; };
  std::vector<std::jthread> members;
  Coordinator coordinator(options);
  members.push_back(member_thread(coordinator.address(), "first", loops[0]));
  coordinator.begin_epoch(0, 0, 30);
  while (coordinator.wait(0.05).empty() && coordinator.steps_done() == 0 && coordinator.members().empty()) {
  }
  members.push_back(member_thread(coordinator.address(), "second", loops[1]));
  while (!coordinator.epoch_finished()) coordinator.wait(0.5);
  EXPECT_TRUE(second_worked);
}

TEST(Members, AWorkerThatIsNotNeededAnyMoreLeavesAndIsNotLost) {
  Used used;
  std::vector<WorkerLoop> loops(2, {&used, false, {}});
  loops[1].batch = [](Membership&, const Lease& lease, int64_t) {
    EXPECT_EQ(lease.places.size(), static_cast<size_t>(lease.end - lease.begin) + 1);
  };
  std::jthread first;
  std::jthread second;
  CoordinatorOptions options = coordinator_options(2);
  options.parts = 1;
  Coordinator coordinator(options);
  first = member_thread(coordinator.address(), "first", loops[0]);
  coordinator.begin_epoch(0, 0, 60, "at 0");
  while (coordinator.members().empty()) coordinator.wait(0.01);
  second = member_thread(coordinator.address(), "second", loops[1]);
  while (coordinator.members().size() < 2) coordinator.wait(0.01);
  size_t steps = 0;
  for (int64_t step = 0; step < 60; ++step) {
    coordinator.extend({fmt::format("at {}", step + 1)});
    if (step == 20) coordinator.resize(1, true);
    steps += coordinator.wait(0.001).size();
  }
  second.join();
  while (!coordinator.epoch_finished()) steps += coordinator.wait(0.5).size();
  EXPECT_EQ(steps, 60U);
  EXPECT_EQ(used.different(), 60U);
  EXPECT_EQ(used.most(), 1);
  EXPECT_EQ(coordinator.losses().members, 0);
  EXPECT_EQ(coordinator.members().size(), 1U);
}

TEST(Members, DrainingEndsTheEpochAtAWholeBatch) {
  Used used;
  std::vector<WorkerLoop> loops(2, {&used, false, {}});
  std::vector<std::jthread> members;
  Coordinator coordinator(coordinator_options(2));
  for (WorkerLoop& loop : loops) members.push_back(member_thread(coordinator.address(), "m", loop));
  await_members(coordinator, loops.size());
  coordinator.begin_epoch(0, 0, 1'000'000);
  size_t steps = coordinator.wait(20).size();
  EXPECT_GT(steps, 0U);
  coordinator.drain();
  while (!coordinator.epoch_finished()) steps += coordinator.wait(0.5).size();
  EXPECT_EQ(steps, static_cast<size_t>(coordinator.steps_done()));
  EXPECT_LT(steps, 1'000'000U);
  EXPECT_EQ(used.different(), steps * 2);
}

TEST(Members, AFailureThatAffectsEveryMemberEndsTheRun) {
  Coordinator coordinator(coordinator_options(2));
  Membership member(member_options(coordinator.address(), "host:1"));
  member.fail_all("the loss is not finite");
  expect_error(
      [&] {
        for (int i = 0; i < 100; ++i) coordinator.wait(0.2), coordinator.begin_epoch(0, 0, 1);
      },
      {"host:1", "the loss is not finite"}, Error::Kind::run);
}

TEST(Members, TheEndOfTheTrainingEndsAllWaiting) {
  auto coordinator = std::make_unique<Coordinator>(coordinator_options(2, Rhythm::rounds));
  Membership worker(member_options(coordinator->address()));
  std::jthread end([&] { coordinator.reset(); });
  EXPECT_FALSE(worker.wait_for_work());
  EXPECT_FALSE(worker.lost());
  EXPECT_FALSE(worker.lease().has_value());
  EXPECT_FALSE(worker.next_round(1, {1}).has_value());
  EXPECT_FALSE(worker.wait_for_turn(1).has_value());
  worker.done({});
}

TEST(Members, AStopRequestEndsAllWaiting) {
  Coordinator coordinator(coordinator_options(2, Rhythm::rounds));
  std::stop_source stop;
  MembershipOptions options = member_options(coordinator.address());
  options.stop = stop.get_token();
  Membership member(options);
  std::jthread stopper([&] { stop.request_stop(); });
  expect_error([&] { member.wait_for_work(); }, {"work", "stopped"}, Error::Kind::run);
  expect_error([&] { member.next_round(1, {1}); }, {"other workers", "stopped"}, Error::Kind::run);
}

}  // namespace
}  // namespace telar::test
