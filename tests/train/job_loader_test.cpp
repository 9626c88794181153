#include "telar/train/job_loader.h"

#include <gtest/gtest.h>

#include "support/sentences.h"
#include "telar/observe/process.h"
#include "telar/train/job_reader.h"

namespace telar {
namespace {

TEST(LoaderThreads, AreThoseThatComputingLeaves) {
  EXPECT_EQ(default_loader_threads({.available = 8, .computing = 5}, 4), 3);
  EXPECT_EQ(default_loader_threads({.available = 64, .computing = 1}, 4), 4) << "so many batches are read";
  EXPECT_EQ(default_loader_threads({.available = 8, .computing = 8}, 4), 1) << "batches are read ahead";
  EXPECT_EQ(default_loader_threads({.available = 2, .computing = 6}, 4), 1);
}

TEST(LoaderThreads, OfAQuotaThatTheComputationUsesAreOne) {
  const int available = available_threads(1, {.cpus = 1.5});
  EXPECT_EQ(default_loader_threads({available, available}, 4), 1);
}

TEST(LoaderThreads, AreThoseOfTheJobIfItSetsThem) {
  const auto job = [](const std::string& threads) {
    return parse_job("model: mlp\ndata: synthetic\n", "job.yaml", {"data.threads=" + threads});
  };
  EXPECT_EQ(loader_threads(job("0"), nullptr), 0);
  EXPECT_EQ(loader_threads(job("9"), nullptr), 9);
  const Job automatic = job("-1");
  EXPECT_EQ(loader_threads(automatic, nullptr),
            default_loader_threads(thread_budget(automatic, nullptr), automatic.data.prefetch));
  EXPECT_EQ(parse_job("model: mlp\ndata: synthetic\n", "job.yaml").data.threads, kAutomaticThreads);
  EXPECT_EQ(thread_budget(automatic, nullptr).computing, available_threads());
}

TEST(LoaderThreads, AreToldWhereThereIsAQuota) {
  if (bound_threads() < 2) GTEST_SKIP() << "NOT TESTED: with one processor no quota is lower";
  std::vector<std::string> told;
  const auto tell = [&](const std::string& text) { told.push_back(text); };
  const auto job = [](const std::string& threads) {
    return parse_job("model: mlp\ndata: synthetic\nstrategy: {name: single, threads: 1}\n", "job.yaml",
                     {"data.threads=" + threads});
  };
  tell_threads(job("2"), nullptr, {tell, tell}, {});
  EXPECT_TRUE(told.empty()) << "there is no quota";
  const std::string quota =
      "a control group allows this process the time of 0.5 CPUs, so 1 thread is used by default; the loader has ";
  tell_threads(job("-1"), nullptr, {tell, tell}, {.cpus = 0.5});
  EXPECT_EQ(told, std::vector<std::string>{quota + "1 thread"});
  told.clear();
  tell_threads(job("2"), nullptr, {tell, tell}, {.cpus = 0.5});
  ASSERT_EQ(told.size(), 2U);
  EXPECT_EQ(told[0], quota + "2 threads");
  EXPECT_TRUE(test::says(told[1], "data.threads is 2, but the quota allows 1 thread, of which 1 computes"));
}

TEST(LoaderThreads, BeyondAQuotaAreWarnedOf) {
  DataJob data;
  const auto warning = [&](int64_t threads, const ThreadBudget& budget) {
    data.threads = threads;
    return loader_warning(data, budget);
  };
  const ThreadBudget budget{.available = 4, .computing = 2};
  EXPECT_EQ(
      warning(3, budget),
      "data.threads is 3, but the quota allows 4 threads, of which 2 compute; more than 2 loader threads may slow the training down");
  EXPECT_EQ(warning(2, budget), "");
  EXPECT_EQ(warning(1, {.available = 2, .computing = 2}), "") << "one reads ahead";
  EXPECT_EQ(warning(kAutomaticThreads, {.available = 2, .computing = 2}), "");
}

}  // namespace
}  // namespace telar
