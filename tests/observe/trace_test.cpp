#include "telar/observe/trace.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace telar {
namespace {

TEST(Trace, IsAJsonObjectOfCompleteEventsAndTheirNames) {
  const std::vector<TraceRow> rows = {
      {"replica 0", {{"conv \"1\"", "forward", 0.5, 12.25}, {"update", "update", 13, 1}}},
      {"replica 0: communication", {{"barrier", "communication", 14, 2}}}};
  const std::vector<std::string> processes = {trace_events_text("rank 0", 0, rows),
                                              trace_events_text("rank 1", 1, rows)};
  const auto json = nlohmann::json::parse(trace_file_text(processes, {{"strategy", "mirrored"}}));
  EXPECT_EQ(json["otherData"]["strategy"], "mirrored");
  std::vector<nlohmann::json> complete;
  std::vector<std::string> threads;
  for (const auto& event : json["traceEvents"]) {
    if (event["ph"] == "X") complete.push_back(event);
    if (event["name"] == "thread_name" && event["pid"] == 1) threads.push_back(event["args"]["name"]);
  }
  ASSERT_EQ(complete.size(), 6U);
  EXPECT_EQ(complete[0],
            nlohmann::json::parse(
                R"({"name":"conv \"1\"","cat":"forward","ph":"X","ts":0.5,"dur":12.25,"pid":0,"tid":0})"));
  EXPECT_EQ(complete[5]["pid"], 1);
  EXPECT_EQ(complete[5]["tid"], 1);
  EXPECT_EQ(threads, (std::vector<std::string>{"replica 0", "replica 0: communication"}));
}

}  // namespace
}  // namespace telar
