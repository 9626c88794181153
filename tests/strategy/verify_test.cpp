#include "telar/strategy/verify.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <optional>

#include "runtime/models.h"
#include "support/sentences.h"
#include "telar/core/error.h"
#include "telar/nn/training_step.h"
#include "telar/nn/zoo.h"
#include "telar/strategy/strategy.h"

namespace telar {
namespace {

using test::says;
using test::sentence_of;

TrainingStep step_of(const std::vector<int64_t>& hidden, int64_t batch,
                     std::optional<double> clip_norm = {}) {
  return make_training_step(
      make_model("mlp", {{"hidden", hidden}}, {8}, 4),
      {.batch = batch, .optimizer = SgdOptions{.momentum = 0.9}, .clip_norm = clip_norm});
}

Program rewritten(const std::string& strategy, const Attributes& options, int workers, int processes = 1) {
  const Cluster cluster{std::vector<DeviceSpec>(static_cast<size_t>(workers / processes)), processes};
  return make_strategy(strategy, options).rewrite(step_of({32, 16, 16}, 16, 1), cluster);
}

/// Two pipelines of two stages, each of which divides its layers among two workers.
Program grid(int processes = 1) {
  return rewritten("hybrid",
                   {{"data", int64_t{2}},
                    {"model", int64_t{2}},
                    {"stages", int64_t{2}},
                    {"micro_batches", int64_t{3}},
                    {"split", std::vector<std::string>{"*=columns"}}},
                   8, processes);
}

/// What verify() says of a program into which a fault was seeded.
std::string found(Program program, const std::function<void(Program&)>& seed) {
  verify(program);
  seed(program);
  return sentence_of([&] { verify(program); }, Error::Kind::run);
}

Program mirrored() { return rewritten("mirrored", {}, 3); }
Program sharded() { return rewritten("sharded", {{"stage", int64_t{3}}, {"whole_below", int64_t{0}}}, 3); }

TEST(Verify, FindsAGroupThatMissesAMember) {
  EXPECT_TRUE(says(found(mirrored(),
                         [](Program& program) {
                           program.kinds.push_back(program.kinds[0]);
                           auto& schedule = program.kinds[1].schedule;
                           std::erase(schedule, action::exchange_metrics());
                           program.kind_of_worker = {0, 0, 1};
                         }),
                   "worker 2 (data 2) are of the group 'all', but where one exchanges exchange_metrics"));
  EXPECT_TRUE(says(found(grid(), [](Program& program) { program.groups[0].along = {"depth"}; }),
                   "'data' is along 'depth', which is no axis"));
  EXPECT_TRUE(says(found(grid(),
                         [](Program& program) {
                           std::erase_if(program.groups,
                                         [](const WorkerGroup& group) { return group.name == "model"; });
                         }),
                   "no group 'model'"));
}

TEST(Verify, FindsASendWithoutReceive) {
  const auto pipeline = [] { return rewritten("pipeline", {{"micro_batches", int64_t{3}}}, 2, 2); };
  EXPECT_TRUE(
      says(found(pipeline(),
                 [](Program& program) { std::erase(program.kinds[0].schedule, action::send_forward(1)); }),
           "waits for ever for"));
  EXPECT_TRUE(says(found(pipeline(),
                         [](Program& program) {
                           program.kinds[0].crossings.clear();
                           program.kinds[1].crossings.clear();
                         }),
                   "which no other stage delivers"));
  EXPECT_TRUE(says(found(pipeline(),
                         [](Program& program) {
                           auto& schedule = program.kinds[1].schedule;
                           std::erase(schedule, action::receive_forward(1));
                         }),
                   "is sent, but never received"));
}

TEST(Verify, FindsAnOwnerTwiceAndOneThatIsMissing) {
  EXPECT_TRUE(says(found(grid(),
                         [](Program& program) {
                           auto& holdings = program.kinds[1].holdings;
                           holdings.push_back(program.kinds[0].holdings.front());
                         }),
                   "is kept twice"));
  EXPECT_TRUE(says(found(grid(), [](Program& program) { program.kinds[0].holdings.pop_back(); }),
                   "although it is of the group that does"));
  EXPECT_TRUE(says(found(sharded(),
                         [](Program& program) {
                           for (Holding& holding : program.kinds[0].holdings) holding.copies = kAllWorkers;
                         }),
                   "by different rules"));
  EXPECT_TRUE(says(found(mirrored(), [](Program& program) { program.kinds[0].holdings.pop_back(); }),
                   "no worker keeps"));
}

TEST(Verify, FindsExchangesInAnotherOrder) {
  EXPECT_TRUE(says(found(grid(),
                         [](Program& program) {
                           auto& schedule = program.kinds[3].schedule;
                           const auto metrics = std::ranges::find(schedule, action::exchange_metrics());
                           std::iter_swap(metrics, metrics + 1);
                         }),
                   "where one exchanges exchange_metrics, the other exchanges exchange_norm"));
}

TEST(Verify, FindsAGradientThatIsNotSummed) {
  EXPECT_TRUE(says(found(mirrored(), [](Program& program) { program.buckets[0].parameters.pop_back(); }),
                   "is not summed over those that keep the same"));
  EXPECT_TRUE(says(found(grid(), [](Program& program) { program.buckets[0].group = "stages"; }),
                   "is summed over 'stages'"));
}

TEST(Verify, FindsAnUpdateBeforeAllHaveTheirSums) {
  const auto moved = [](const ScheduledAction& what, std::ptrdiff_t by) {
    return [=](Program& program) {
      for (WorkerProgram& kind : program.kinds) {
        const auto at = std::ranges::find(kind.schedule, what);
        std::iter_swap(at, at + by);
      }
    };
  };
  EXPECT_TRUE(says(found(mirrored(), moved(action::update_shard(), -2)),
                   "does 'update_shard' before all workers have their sums"));
  EXPECT_TRUE(says(found(mirrored(), moved(action::finish_exchange(), 1)),
                   "does 'finish_exchange' after all workers have their sums"));
  EXPECT_TRUE(says(found(grid(), moved(action::update_shard(), -2)),
                   "does 'update_shard' before all workers have their sums"));
}

TEST(Verify, FindsWorkersThatNeitherSumNorAverage) {
  const auto local_sgd = [] { return rewritten("local_sgd", {{"warmup_steps", int64_t{5}}}, 3); };
  EXPECT_TRUE(
      says(found(local_sgd(), [](Program& program) { program.kinds[0].later[0].schedule.pop_back(); }),
           "sums bucket 0 0 times in a step of phase 1"));
  EXPECT_TRUE(
      says(found(local_sgd(),
                 [](Program& program) { program.kinds[0].later[0].gradient = program.kinds[0].gradient; }),
           "trains alone, but its gradient graph exchanges"));
  EXPECT_TRUE(says(found(local_sgd(),
                         [](Program& program) {
                           program.kinds[0].later[0].schedule.push_back(action::exchange_metrics());
                         }),
                   "trains alone, but does 'exchange_metrics' with others"));
  EXPECT_TRUE(says(
      found(mirrored(),
            [](Program& program) { program.kinds[0].schedule.push_back(action::average_parameters(2)); }),
      "does not keep the whole of"));
  EXPECT_TRUE(says(found(mirrored(),
                         [](Program& program) {
                           auto& schedule = program.kinds[0].schedule;
                           schedule.insert(schedule.begin() + 1, action::sum_gradients());
                         }),
                   "sums bucket 0 2 times in a step"));
}

TEST(Verify, FindsWhatIsNamedButNotThere) {
  const auto servers = [] {
    Cluster cluster{{{}}};
    cluster.servers = 1;
    return make_strategy("async_sgd").rewrite(step_of({16}, 16), cluster);
  };
  EXPECT_TRUE(says(found(servers(), [](Program& program) { program.stores[0].name = "attic"; }),
                   "the program has no such store"));
  EXPECT_TRUE(
      says(found(servers(), [](Program& program) { program.kinds[0].schedule[1].payload = "zip"; }), "zip"));
  EXPECT_TRUE(says(found(mirrored(),
                         [](Program& program) {
                           program.kind_of_worker = {0, 0, 1};
                         }),
                   "no kind 1"));
}

TEST(Verify, FindsGraphsOfOtherPieces) {
  EXPECT_TRUE(says(found(sharded(),
                         [](Program& program) {
                           for (WorkerProgram& kind : program.kinds)
                             for (Holding& holding : kind.holdings)
                               if (!holding.divided.empty() && holding.shape.rank() == 2) holding.axis = 1;
                         }),
                   "but its graph is made for"));
}

/// A deadlock that only a run of the schedules finds: each stage waits for the other.
TEST(Verify, FindsStagesThatWaitForEachOther) {
  EXPECT_TRUE(says(found(rewritten("pipeline", {{"micro_batches", int64_t{2}}}, 2),
                         [](Program& program) {
                           using namespace action;
                           program.kinds[0].schedule = {forward(0), backward(0), forward(1), backward(1)};
                           program.kinds[1].schedule = {forward(0), forward(1), backward(0), backward(1)};
                         }),
                   "waits for ever for"));
}

TEST(Verify, ShardedHasFewKindsWhereverItsExtentsDoNotDivide) {
  const Program program = rewritten("sharded", {{"stage", int64_t{2}}, {"whole_below", int64_t{0}}}, 7);
  EXPECT_LE(program.kinds.size(), program.parameters.size() + 1);
  EXPECT_GT(program.kinds.size(), 2U) << "32 and 16 rows leave different remainders";
}

TEST(Verify, AProgramForTenThousandWorkersIsAsLongAsOneForFew) {
  const TrainingStep step = step_of({64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64}, 40000);
  struct Case {
    std::string strategy;
    Attributes few;
    int workers;
    Attributes many;
  };
  const auto grid_of = [](int64_t data) {
    return Attributes{{"data", data},
                      {"model", int64_t{10}},
                      {"stages", int64_t{10}},
                      {"micro_batches", int64_t{4}},
                      {"split", std::vector<std::string>{"*12=whole", "*=columns"}}};
  };
  for (const auto& [strategy, few, workers, many] :
       {Case{"mirrored", {}, 2, {}}, Case{"sharded", {{"stage", int64_t{2}}}, 2, {{"stage", int64_t{2}}}},
        Case{"hybrid", grid_of(2), 200, grid_of(100)}}) {
    const auto made = [&](const Attributes& options, int count) {
      Cluster cluster{std::vector<DeviceSpec>(1), count};
      return make_strategy(strategy, options).rewrite(step, cluster);
    };
    const Program small = made(few, workers);
    const Program large = made(many, 10000);
    verify(large);
    EXPECT_EQ(large.mesh.workers(), 10000);
    EXPECT_LE(large.kinds.size(), small.kinds.size());
    EXPECT_LT(large.str().size(), 1.1 * static_cast<double>(small.str().size())) << strategy;
  }
}

}  // namespace
}  // namespace telar
