#include "telar/strategy/link_bytes.h"

#include <gtest/gtest.h>

#include "telar/nn/training_step.h"
#include "telar/nn/zoo.h"
#include "telar/strategy/strategy.h"

namespace telar {
namespace {

using Links = std::map<std::pair<int64_t, int64_t>, double>;

constexpr int64_t kParameters = 8 * 32 + 32 + 32 * 4 + 4;
constexpr double kMetrics = 2;

Program of_processes(const std::string& strategy, const Attributes& options, int workers, int processes) {
  const TrainingStep step =
      make_training_step(make_model("mlp", {{"hidden", std::vector<int64_t>{32}}}, {8}, 4), {.batch = 12});
  return make_strategy(strategy, options)
      .rewrite(step, {std::vector<DeviceSpec>(static_cast<size_t>(workers / processes)), processes});
}

// scripts/hosts-test grids compares them with what passes between two hosts.
TEST(LinkBytes, OfSumsAreTwoPartsForEachProcess) {
  EXPECT_EQ(bytes_on_each_link(of_processes("mirrored", {}, 4, 1)), Links());
  const double all = 4 * (kParameters + kMetrics);
  for (const int workers : {2, 4})
    EXPECT_EQ(bytes_on_each_link(of_processes("mirrored", {}, workers, 2)),
              (Links{{{0, 1}, all}, {{1, 0}, all}}));
  for (const auto& [link, bytes] : bytes_on_each_link(of_processes("mirrored", {}, 3, 3)))
    EXPECT_DOUBLE_EQ(bytes, 2 * all / 3);
}

TEST(LinkBytes, OfPhasesDiffer) {
  const Program program = of_processes("local_sgd", {{"warmup_steps", int64_t{3}}}, 2, 2);
  EXPECT_DOUBLE_EQ(bytes_on_each_link(program, 0).at({0, 1}), 4 * (kParameters + kMetrics));
  EXPECT_DOUBLE_EQ(bytes_on_each_link(program, 1).at({0, 1}), 4.0 * kParameters);
}

TEST(LinkBytes, OfAPipelineAreThoseOfItsMessages) {
  const Links links = bytes_on_each_link(of_processes("pipeline", {{"micro_batches", int64_t{3}}}, 2, 2));
  EXPECT_DOUBLE_EQ(links.at({0, 1}), 4 * (12 * 32 + kMetrics));
  EXPECT_DOUBLE_EQ(links.at({1, 0}), 4 * (12 * 32 + kMetrics));
}

}  // namespace
}  // namespace telar
