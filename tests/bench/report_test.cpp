#include "telar/bench/report.h"

#include <gtest/gtest.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "io/temp_folder.h"
#include "support/sentences.h"

namespace telar::bench {
namespace {

using test::TempFolder;
using test::write_text;

/// The data that the page draws.
nlohmann::json data_of(const std::string& page) {
  const std::string begin = "id=\"data\">";
  const size_t from = page.find(begin) + begin.size();
  return nlohmann::json::parse(page.substr(from, page.find("</script>", from) - from));
}

Result a_result() {
  Result result{"matmul", "Products", {"side", "device"}, {}, "", 0, {"A remark."}, {}};
  result.environment.entries = {{"processor", "</script><b>A fast one"}};
  result.rows.push_back({{"32", "cpu:1"}, Measured{{{2, 1, 4}}, 4e6, 100, 1.5, false, std::nullopt}, {}});
  result.rows.push_back({{"32", "cpu"}, Measured{{{1, 1, 1}}, 4e6, 100, 2, true, 0.5}, {}});
  result.rows.push_back({{"64", "gpu"}, std::nullopt, "there is none"});
  return result;
}

std::filesystem::path add_run(const TempFolder& folder, const std::string& name, const std::string& metrics) {
  write_text(folder / (name + "/job.yaml"), "model: mlp\ndata: fashion-mnist\ntraining: {batch: 50}\n");
  write_text(folder / (name + "/metrics.jsonl"), metrics);
  return folder / name;
}

TEST(Report, ShowsTheRowsAndRatesOfAResult) {
  const std::string page = report_page(a_result());
  EXPECT_EQ(page.find("<b>A fast"), std::string::npos) << "the data must not close its element";
  const auto section = data_of(page).at("sections").at(0);
  EXPECT_EQ(section.at("environment").at("processor"), "</script><b>A fast one");
  const auto rows = section.at("tables").at(0).at("rows");
  EXPECT_EQ(rows.at(0).at(2), 2);
  EXPECT_EQ(rows.at(1).back(), "suspect: faster than its limit");
  EXPECT_EQ(rows.at(2).back(), "not measured: there is none");
  const auto chart = section.at("charts").at(0);
  EXPECT_EQ(chart.at("categories"), nlohmann::json({"32"}));
  EXPECT_EQ(chart.at("series").at(0).at("name"), "cpu:1");
  EXPECT_EQ(chart.at("series").at(0).at("points").at(0), nlohmann::json({0, 2.0, 1.0, 4.0}));
}

TEST(Report, DrawsTheFigureThatAResultNames) {
  Result result{"train", "Training", {"environment", "precision"}, {}, "", 0, {}, {}, "images per second"};
  result.rows.push_back({{"cpu:1", "f32"}, std::nullopt, "", {{"images per second", "images/s", 10}}});
  result.rows.push_back({{"gpu", "f32"}, std::nullopt, "there is none"});
  result.charts.push_back({"Accuracy", {"samples", ""}, {"accuracy", ""}, {{"cpu:1", {{10, 0.5}}}}});
  const auto section = data_of(report_page(result)).at("sections").at(0);
  const auto table = section.at("tables").at(0);
  EXPECT_EQ(table.at("columns").at(2),
            nlohmann::json({{"name", "images per second"}, {"unit", "images/s"}, {"number", true}}));
  EXPECT_EQ(table.at("rows"), nlohmann::json({{"cpu:1", "f32", 10, ""},
                                              {"gpu", "f32", nullptr, "not measured: there is none"}}));
  EXPECT_EQ(section.at("charts").at(0).at("series").at(0).at("points"), nlohmann::json({{0, 10}}));
  EXPECT_EQ(section.at("charts").at(1).at("series").at(0).at("name"), "cpu:1");
}

TEST(Report, DrawsAllRunsInOneChart) {
  const TempFolder folder;
  std::string metrics;
  for (int step = 1; step <= 1000; ++step) {
    metrics += R"({"kind":"step","step":)" + std::to_string(step) + R"(,"epoch":1,"loss":2.0,"samples":)" +
               std::to_string(50 * step) + R"(,"seconds":)" + std::to_string(0.5 * step) + "}\n";
  }
  metrics +=
      R"({"kind":"epoch","step":1000,"epoch":1,"samples":50000,"seconds":500,"train_loss":1,"train_accuracy":0.5,"validation_loss":1,"validation_accuracy":0.75})"
      "\n";
  const auto first = add_run(folder, "first", metrics);
  const auto second = add_run(folder, "second",
                              R"({"kind":"step","step":1,"epoch":1,"samples":50,"seconds":1,"loss":1.0})"
                              "\n"
                              R"({"kind":"st)");
  write_text(first / "summary.json",
             R"({"strategy": "mirrored", "test_accuracy": 0.8, "peak_memory_bytes": 2000000})");
  const auto section = data_of(report_page({first, second}, "Two <runs>")).at("sections").at(0);
  EXPECT_EQ(section.at("tables").at(0).at("rows").at(0).at(4), 0.8);
  EXPECT_EQ(section.at("tables").at(0).at("rows").at(0).at(9), 2);
  EXPECT_EQ(section.at("tables").at(0).at("rows").at(1).at(3), "not ended");
  const auto charts = section.at("charts");
  ASSERT_EQ(charts.size(), 6U);
  EXPECT_EQ(charts.at(0).at("series").size(), 2U);
  const auto points = charts.at(1).at("series").at(0).at("points");
  EXPECT_LE(points.size(), 400U);
  EXPECT_DOUBLE_EQ(points.back().at(0), 500);  // 1000 steps of 50 samples at 100 samples/s
  EXPECT_EQ(charts.at(2).at("series").at(0).at("points"), nlohmann::json({{50000.0, 0.75}}));
  EXPECT_EQ(charts.at(4).at("series").at(0).at("points"), nlohmann::json({{50000.0, 1.0}}))
      << "validation loss";
}

TEST(Report, MarksWhereARunWasResumedAndLostProcesses) {
  const TempFolder folder;
  const auto step = [](int number) {
    return fmt::format(R"({{"kind":"step","step":{0},"epoch":1,"samples":{1},"seconds":{0},"loss":1.0}})"
                       "\n",
                       number, 10 * number);
  };
  const std::string at2 = R"("step":2,"epoch":1,"samples":20,"seconds":2)";
  const auto quiet = add_run(folder, "quiet", step(1) + step(4));
  const auto run = add_run(
      folder, "run",
      step(1) + "{" + R"("kind":"recovery",)" + at2 +
          R"x(,"lost":"rank 2 (<b>:7)","come":"","processes":2,"processes_before":3,"steps_again":0})x" +
          "\n" + "{" + R"("kind":"recovery",)" + at2 +
          R"x(,"lost":"","come":"rank 2 (a:9)","processes":3,"processes_before":2,"steps_again":0})x" + "\n" +
          "{" + R"("kind":"resume",)" + at2 + R"(,"changes":"training.batch: 1 → 2"})" + "\n" + step(4));
  const std::string page = report_page({quiet, run}, "");
  EXPECT_EQ(page.find("<b>"), std::string::npos);
  const auto charts = data_of(page).at("sections").at(0).at("charts");
  ASSERT_EQ(charts.size(), 3U);
  EXPECT_EQ(charts.at(0).at("marks").at(0),
            nlohmann::json({{"series", 1}, {"x", 20.0}, {"text", "lost: rank 2 (<b>:7)"}}));
  EXPECT_EQ(charts.at(1).at("marks").at(1).at("text"), "come: rank 2 (a:9)");
  EXPECT_EQ(charts.at(1).at("marks").at(2),
            nlohmann::json({{"series", 1}, {"x", 2.0}, {"text", "resumed; training.batch: 1 → 2"}}));
  const auto processes = charts.at(2).at("series");
  ASSERT_EQ(processes.size(), 1U);
  EXPECT_EQ(processes.at(0).at("name"), "run");
  EXPECT_EQ(processes.at(0).at("points"),
            nlohmann::json({{0., 3.}, {2., 3.}, {2., 2.}, {2., 2.}, {2., 3.}, {4., 3.}}));
}

TEST(Report, ShowsAFolderOfPythonsFitAndNoReplicasOfAPipeline) {
  const TempFolder folder;
  const char* metrics = R"({"kind":"step","step":1,"epoch":1,"samples":50,"seconds":1,"loss":1.0})";
  write_text(folder / "fit" / "metrics.jsonl", std::string(metrics) + "\n");
  const auto staged = add_run(folder, "staged", std::string(metrics) + "\n");
  write_text(staged / "summary.json",
             R"({"outcome": "failed", "strategy": "pipeline", "replicas": 1, "bubble_formula": 0.1})");
  const auto rows =
      data_of(report_page({folder / "fit", staged}, "")).at("sections").at(0).at("tables").at(0).at("rows");
  EXPECT_EQ(rows.at(0).at(0), "fit");
  EXPECT_EQ(rows.at(0).at(3), "—");
  EXPECT_EQ(rows.at(1).at(2), nullptr);
  EXPECT_EQ(rows.at(1).at(3), "failed");
  write_text(staged / "summary.json", R"({"outcome": "finished", "warning": "updates are lost"})");
  EXPECT_EQ(data_of(report_page({staged}, "")).at("sections").at(0).at("tables").at(0).at("rows").at(0).at(3),
            "finished; warning: updates are lost");
  EXPECT_EQ(rows.at(0).at(6), 50) << "samples/s";
  EXPECT_EQ(rows.at(0).at(8), 1) << "seconds";
}

TEST(Report, TellsTheBestEpochAndRunsOfOneNameApart) {
  const TempFolder folder;
  std::string metrics;
  for (const char* loss : {"null", "0.5", "0.25", "0.75"})
    metrics += fmt::format(
        R"({{"kind":"epoch","step":1,"epoch":4,"samples":50,"seconds":1,"train_loss":0.1,"validation_loss":{}}})"
        "\n",
        loss);
  write_text(folder / "a" / "run" / "metrics.jsonl", metrics);
  write_text(folder / "b" / "run" / "metrics.jsonl", metrics);
  const auto section =
      data_of(report_page({folder / "a" / "run", folder / "b" / "run"}, "")).at("sections").at(0);
  const auto rows = section.at("tables").at(0).at("rows");
  EXPECT_EQ(rows.at(0).at(0), (folder / "a" / "run").string());
  EXPECT_EQ(rows.at(1).at(0), (folder / "b" / "run").string());
  EXPECT_EQ(rows.at(0).at(11), 4) << "epochs";
  EXPECT_EQ(rows.at(0).at(12), 0.25);
}

TEST(Report, RejectsFilesThatAreNeitherRunNorResult) {
  const TempFolder folder;
  write_text(folder / "other.json", "{\"a\": 1}");
  write_text(folder / "text.txt", "hello");
  std::filesystem::create_directory(folder / "empty");
  test::expect_error([&] { report_page({folder / "other.json"}, ""); }, {"other.json", "--json"});
  test::expect_error([&] { report_page({folder / "text.txt"}, ""); }, {"text.txt"});
  test::expect_error([&] { report_page({folder / "empty"}, ""); }, {"empty", "metrics.jsonl"});
  test::expect_error([&] { report_page({folder / "missing.json"}, ""); }, {"missing.json"});
  write_text(
      folder / "rows.json",
      R"({"experiment": "matmul", "environment": {}, "settings": ["side"], "rows": [{"side": 5, "median_ms": 1}, 7]})");
  test::expect_error([&] { report_page({folder / "rows.json"}, ""); },
                     {"rows.json", "does not have the format that telar writes"});
  const auto odd = add_run(folder, "odd",
                           R"({"kind":"step","step":"one"})"
                           "\n");
  test::expect_error([&] { report_page({odd}, ""); },
                     {"odd", "line 1", "not a line that telar train writes"});
  const auto broken = add_run(folder, "broken", "{\n{}\n");
  test::expect_error([&] { report_page({broken}, ""); }, {"metrics.jsonl", "line 1"});
}

}  // namespace
}  // namespace telar::bench
