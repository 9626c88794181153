#include "telar/observe/metrics_log.h"

#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "io/temp_folder.h"
#include "telar/core/error.h"

namespace telar {
namespace {

using test::read_text;
using test::TempFolder;
using test::write_text;

TEST(MetricsLog, WritesEachLineAtOnceAndInOrder) {
  TempFolder folder;
  MetricsLog log(folder / "metrics.jsonl");
  log.append({{"step", 1}, {"loss", 0.5}, {"phase", "train \"a\""}});
  EXPECT_EQ(read_text(folder / "metrics.jsonl"), "{\"step\":1,\"loss\":0.5,\"phase\":\"train \\\"a\\\"\"}\n");
  log.append({{"step", 2}, {"loss", std::numeric_limits<double>::quiet_NaN()}});
  EXPECT_TRUE(read_text(folder / "metrics.jsonl").ends_with("{\"step\":2,\"loss\":null}\n"));
}

TEST(MetricsLog, AppendsToAnEarlierRun) {
  TempFolder folder;
  const auto path = folder / "metrics.jsonl";
  { MetricsLog(path).append({{"step", 1}}); }
  { MetricsLog(path).append({{"step", 2}}); }
  EXPECT_EQ(read_text(path), "{\"step\":1}\n{\"step\":2}\n");
}

TEST(MetricsLog, DiscardsLinesAfterTheResumedStep) {
  TempFolder folder;
  const auto path = folder / "metrics.jsonl";
  write_text(
      path,
      "{\"job\":\"a\"}\n{\"step\":9}\n{\"step\":10}\n{\"epoch\":1,\"step\":10}\n{\"step\":11}\n{\"step\":12,\"lo");
  discard_metrics_after(path, 10);
  EXPECT_EQ(read_text(path), "{\"job\":\"a\"}\n{\"step\":9}\n{\"step\":10}\n{\"epoch\":1,\"step\":10}\n");
}

TEST(MetricsLog, GoesOnAfterItsLastWholeLine) {
  TempFolder folder;
  const auto path = folder / "metrics.jsonl";
  const std::string earlier = "{\"kind\":\"step\",\"step\":9}\n{\"kind\":\"test\",\"step\":9}\n";
  write_text(path, earlier + "{\"kind\":\"st");
  EXPECT_TRUE(go_on_with_metrics(path).test);
  EXPECT_EQ(read_text(path), earlier);
  write_text(path, earlier + "{\"kind\":\"step\",\"step\":10}\n{\"kind\":\"epoch\",\"epoch\":2}\n");
  const LoggedSoFar logged = go_on_with_metrics(path);  // it was resumed after that test
  EXPECT_FALSE(logged.test);
  EXPECT_EQ(logged.step, 10);
  EXPECT_EQ(logged.epoch, 2);
}

TEST(MetricsLog, WithoutALogThereIsNothingToDiscard) {
  TempFolder folder;
  discard_metrics_after(folder / "metrics.jsonl", 10);
  EXPECT_FALSE(std::filesystem::exists(folder / "metrics.jsonl"));
}

}  // namespace
}  // namespace telar
