#include "telar/comm/members/local_coordinator.h"

#include <gtest/gtest.h>

#include <optional>
#include <set>
#include <thread>

#include "support/sentences.h"

namespace telar {
namespace {

/// The steps that are complete at the end of the epoch.
std::vector<StepDone> steps_of_epoch(LocalCoordinator& coordinator) {
  std::vector<StepDone> all;
  for (bool more = true; more;) {
    more = !coordinator.epoch_finished();
    for (const StepDone& step : coordinator.wait(0.1)) all.push_back(step);
  }
  return all;
}

TEST(LocalCoordinator, InRoundsEachMemberHasItsPartOfEveryBatch) {
  std::optional<LocalCoordinator> coordinator;
  coordinator.emplace(
      CoordinatorOptions{.workers = 2, .rhythm = Rhythm::rounds, .parts = 2, .sizes = {.lease = 3}});
  std::vector<std::thread> threads;
  for (int w = 0; w < 2; ++w) {
    std::shared_ptr<WorkSource> source = coordinator->join("worker");
    threads.emplace_back([source] {
      while (source->wait_for_work()) {
        while (const std::optional<Lease> lease = source->lease()) {
          EXPECT_EQ(lease->part, static_cast<int64_t>(source->id()) - 1);
          for (int64_t step = lease->begin; step < lease->end; ++step) {
            const auto answer = source->next_round(lease->works.front(), {lease->id});
            ASSERT_TRUE(answer.has_value());
            EXPECT_EQ(std::get<StoreRound>(*answer).members, (std::vector<uint32_t>{1, 2}));
            source->done({.lease = lease->id, .step = step, .samples = 4, .metrics = {1.5}});
          }
        }
      }
    });
  }
  for (uint32_t epoch = 0; epoch < 2; ++epoch) {
    coordinator->begin_epoch(epoch, 0, 10);
    const std::vector<StepDone> steps = steps_of_epoch(*coordinator);
    ASSERT_EQ(steps.size(), 10U);
    for (const StepDone& step : steps) {
      EXPECT_EQ(step.samples, 8);
      EXPECT_EQ(step.metrics, std::vector<double>{3.0});
    }
    EXPECT_EQ(coordinator->steps_done(), 10);
  }
  coordinator->begin_epoch(2, 0, 1);
  EXPECT_EQ(steps_of_epoch(*coordinator).size(), 1U);
  coordinator.reset();  // ends the members' waits
  for (std::thread& thread : threads) thread.join();
}

TEST(LocalCoordinator, TheWorkOfAMemberThatLeavesGoesToAnother) {
  LocalCoordinator coordinator({.workers = 2, .sizes = {.lease = 2}});
  coordinator.begin_epoch(0, 0, 4);
  auto leaving = coordinator.join("first");
  const auto staying = coordinator.join("second");
  ASSERT_TRUE(leaving->wait_for_work());
  ASSERT_TRUE(leaving->lease().has_value());
  leaving.reset();
  ASSERT_TRUE(staying->wait_for_work());
  std::set<int64_t> done;
  while (const std::optional<Lease> lease = staying->lease()) {
    for (int64_t step = lease->begin; step < lease->end; ++step) {
      staying->wait_for_turn(lease->works.front());
      staying->done({.lease = lease->id, .step = step, .samples = 1});
      done.insert(step);
    }
  }
  EXPECT_EQ(done, (std::set<int64_t>{0, 1, 2, 3}));
  EXPECT_EQ(steps_of_epoch(coordinator).size(), 4U);
}

TEST(LocalCoordinator, AFailureOfTheRunIsThrownWithTheNameOfTheMember) {
  LocalCoordinator coordinator({.workers = 1});
  coordinator.begin_epoch(0, 0, 4);
  const auto member = coordinator.join("worker 0");
  member->fail_all("the loss is not finite");
  test::expect_error([&] { coordinator.wait(1); }, {"worker 0: the loss is not finite"}, Error::Kind::run);
}

}  // namespace
}  // namespace telar
