#include "telar/bench/products.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "io/temp_folder.h"
#include "support/paths.h"
#include "support/sanitizers.h"
#include "support/sentences.h"
#include "telar/bench/environments.h"
#include "telar/bench/gpu_limits.h"
#include "telar/bench/graph_run.h"
#include "telar/bench/kept_figures.h"

namespace telar::bench {
namespace {

/// Stores the limits of an impossibly fast machine, so that no row is suspect and no limit is measured.
class Products : public testing::Test {
 protected:
  void SetUp() override {
    ::setenv("XDG_CACHE_HOME", cache_.path().c_str(), 1);
    keep_limits({1, 1e15, 1e15, 1e15, 0, 0, 0, 0});
  }
  void TearDown() override { ::unsetenv("XDG_CACHE_HOME"); }
  test::TempFolder cache_;
};

SweepOptions sweep(std::vector<int64_t> sizes) {
  SweepOptions options;
  options.sizes = std::move(sizes);
  options.devices = {"cpu:1"};
  options.repetitions = 1;
  return options;
}

TEST_F(Products, ARowHasItsOperationsAndBytes) {
  const Result result = measure_matmul(sweep({32}));
  ASSERT_EQ(result.rows.size(), 1U);
  EXPECT_EQ(result.rows[0].setting, (std::vector<std::string>{"32", "f32", "cpu:1"}));
  const Measured& measured = *result.rows[0].measured;
  EXPECT_EQ(measured.operations, 2.0 * 32 * 32 * 32);
  EXPECT_EQ(measured.bytes, 3.0 * 32 * 32 * 4);
  EXPECT_GT(measured.limit_ms, 0);
  EXPECT_GE(measured.times.max(), measured.times.median());
  EXPECT_GE(measured.times.median(), measured.times.min());
}

TEST_F(Products, ConvolutionRowsIncludeTheSum) {
  GraphRun run(conv_graph(2, DType::f32), 1);
  run.run();
  EXPECT_EQ(run.output("y").size(), 1U);
}

TEST_F(Products, AnImpossibleDeviceDoesNotStopTheOthers) {
  SweepOptions options = sweep({16});
  options.devices = {"gpu", "cpu:1"};
  const Result result = measure_matmul(options);
  ASSERT_EQ(result.rows.size(), 2U);
  EXPECT_FALSE(result.rows[0].measured);
  EXPECT_NE(result.rows[0].impossible, "");
  EXPECT_TRUE(result.rows[1].measured);
}

TEST_F(Products, AnInterruptedSweepKeepsItsRows) {
  SweepOptions options = sweep({8, 16, 24});
  int asked = 0;
  options.stop_requested = [&] { return ++asked > 1; };
  const Result result = measure_matmul(options);
  EXPECT_EQ(result.rows.size(), 1U);
  EXPECT_EQ(result.environment.entries.empty(), false);
}

TEST_F(Products, RejectsImpossibleOptionsAtOnce) {
  test::expect_error([] { measure_matmul(sweep({0})); }, {"size 0"});
  SweepOptions options = sweep({8});
  options.devices = {"cpu:1", "tpu"};
  test::expect_error([&] { measure_matmul(options); }, {"'tpu'", "cpu:N"});
}

/// Tests that measure the limits of the machine, in seconds: those of a sanitizer's code say nothing.
class ProductsMeasure : public Products {
 protected:
  void SetUp() override {
    Products::SetUp();
    if (test::kSanitized) GTEST_SKIP() << "a sanitizer's code has limits of its own";
  }
};

TEST_F(ProductsMeasure, MeasuresAProductAboveItsLimitAgainWithTheLimit) {
  keep_limits({1, 1, 1, 1, 0, 0, 0, 0});
  measure_matmul(sweep({64}));
  EXPECT_GT(known_limits(1).f32_operations, 1e6);
}

TEST(Limits, AreComputeOrMemoryTrafficBeyondTheCache) {
  const Limits limits{1, 100, 200, 10, 0, 0, 50, 0};
  EXPECT_DOUBLE_EQ(limits.milliseconds(DType::f32, 300, 40), 3000);
  EXPECT_DOUBLE_EQ(limits.milliseconds(DType::bf16, 300, 40), 1500);
  EXPECT_DOUBLE_EQ(limits.milliseconds(DType::f32, 300, 60), 6000);
}

TEST(Limits, OfAGpuIncludeTf32) {
  const GpuLimits limits{100, 200, 400, 10, 0, 50};
  EXPECT_DOUBLE_EQ(limits.milliseconds({DType::f32}, 300, 40), 3000);
  EXPECT_DOUBLE_EQ(limits.milliseconds({DType::f32, true}, 300, 40), 1500);
  EXPECT_DOUBLE_EQ(limits.milliseconds({DType::bf16}, 300, 40), 750);
  EXPECT_DOUBLE_EQ(limits.milliseconds({DType::bf16}, 300, 60), 6000);
}

TEST_F(ProductsMeasure, LimitsOfABusyMachineAreMarkedAndMeasuredAgainLater) {
  keep_limits({1, 1e15, 1e15, 1e15, 0, 5e9, 0, 1.2});
  const Limits busy = known_limits(1, [] { return false; });
  EXPECT_EQ(busy.f32_operations, 1e15);
  EXPECT_NE(busy_text(busy).find("1.2 processors"), std::string::npos) << busy_text(busy);
  const Limits again = known_limits(1, [] { return true; });
  EXPECT_LT(again.f32_operations, 1e15);
  EXPECT_EQ(again.process_all_reduce_bytes, 5e9);  // only `telar bench limits` measures it
}

/// The name begins with OverMpi so that sanitizer runs leave it out: MPI is not built with sanitizers.
class OverMpiLimits : public Products {};

TEST_F(OverMpiLimits, MeasureAnAllReduceBetweenProcesses) {
  if (!without_mpi().empty()) GTEST_SKIP() << without_mpi();
  const auto never = [] { return false; };
  EXPECT_GT(measure_all_reduce_between(2, test::telar_program(), never), 1e6);
  EXPECT_EQ(measure_all_reduce_between(2, test::telar_program(), [] { return true; }), 0);
  test::expect_error([&] { measure_all_reduce_between(2, "/bin/false", never); },
                     {"telar bench comm under mpirun", "exit code 1"}, Error::Kind::run);
}

TEST_F(Products, LimitsOfAQuietMachineAreNotMeasuredAgain) {
  EXPECT_EQ(known_limits(1, [] { return true; }).f32_operations, 1e15);
  EXPECT_EQ(busy_text(known_limits(1)), "");
}

TEST_F(ProductsMeasure, LimitsAreStoredAndADamagedFileIsIgnored) {
  EXPECT_EQ(known_limits(1).f32_operations, 1e15);
  test::write_text(limits_file(), "{ not JSON");
  const Limits measured = known_limits(1);
  EXPECT_GT(measured.f32_operations, 0);
  EXPECT_LT(measured.f32_operations, 1e15);
  EXPECT_GT(measured.memory_bytes, 0);
  EXPECT_EQ(measured.all_reduce_bytes, 0);
  // The machine counts as busy here, whatever was measured: on a quiet one they would be measured again.
  EXPECT_EQ(known_limits(1, [] { return false; }).f32_operations, measured.f32_operations);
}

TEST(BenchResult, HasJsonAndCsvForms) {
  Result result{"matmul", "Products", {"side", "device"}, {}, "RAPL (package-0)", 0.5, {"A remark."}, {}};
  result.environment.entries = {{"processor", "A \"fast\" one"}};
  result.rows.push_back({{"32", "cpu"}, Measured{{{2, 1, 3}}, 4e6, 100, 1.5, false, 0.25}, {}});
  result.rows.push_back({{"32", "gpu"}, std::nullopt, "none, here"});
  const auto json = nlohmann::json::parse(json_text(result));
  EXPECT_EQ(json["environment"]["processor"], "A \"fast\" one");
  EXPECT_EQ(json["rows"][0]["median_ms"], 2);
  EXPECT_EQ(json["rows"][0]["operations_per_second"], 2e9);
  EXPECT_EQ(json["rows"][0]["of_limit"], 0.75);
  EXPECT_EQ(json["rows"][0]["joules"], 0.25);
  EXPECT_EQ(json["rows"][1]["impossible"], "none, here");
  EXPECT_TRUE(was_busy(result));
  EXPECT_EQ(
      csv_text(result),
      "side,device,median_ms,min_ms,max_ms,repetitions,operations,bytes,operations_per_second,bytes_per_second,limit_ms,of_limit,suspect,joules,impossible\r\n"
      "32,cpu,2,1,3,3,4000000,100,2000000000,50000,1.5,0.75,false,0.25,\r\n"
      "32,gpu,,,,,,,,,,,,,\"none, here\"\r\n");
}

TEST(BenchResult, AdditionalFiguresAreColumns) {
  Result result{"train", "Training", {"environment"}, {}, "", 0, {}, {}};
  result.rows.push_back(
      {{"cpu:1"}, std::nullopt, "", {{"forward", "ms", 1.5}, {"energy", "J", std::nullopt}}});
  result.rows.push_back({{"gpu"}, std::nullopt, "there is none"});
  result.rows.push_back({{"cpu:2"}, std::nullopt, "", {{"speed-up", "", 2}}});
  result.charts.push_back(
      {"Accuracy", {"samples", ""}, {"accuracy", ""}, {{"cpu:1", {{10, 0.5}, {20, 0.75}}}}});
  const auto json = nlohmann::json::parse(json_text(result));
  EXPECT_EQ(json["rows"][0]["figures"]["forward"], nlohmann::json({{"value", 1.5}, {"unit", "ms"}}));
  EXPECT_TRUE(json["rows"][0]["figures"]["energy"]["value"].is_null());
  EXPECT_EQ(json["charts"][0]["series"][0]["points"], nlohmann::json({{10, 0.5}, {20, 0.75}}));
  EXPECT_EQ(
      csv_text(result),
      "environment,median_ms,min_ms,max_ms,repetitions,operations,bytes,operations_per_second,bytes_per_second,limit_ms,of_limit,suspect,joules,forward [ms],energy [J],speed-up,impossible\r\n"
      "cpu:1,,,,,,,,,,,,,1.5,,,\r\n"
      "gpu,,,,,,,,,,,,,,,,there is none\r\n"
      "cpu:2,,,,,,,,,,,,,,,2,\r\n");
}

}  // namespace
}  // namespace telar::bench
