#include "telar/runtime/timeline.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "runtime/models.h"
#include "support/make_session.h"
#include "telar/nn/layers.h"
#include "telar/nn/zoo.h"

namespace telar {
namespace {

using namespace std::chrono_literals;
using test::convnet;
using test::make_session;
using test::Samples;
using test::SessionSetup;

using Clock = Timeline::Clock;

double sum_of(const PhaseTimes& times) {
  return std::accumulate(times.seconds.begin(), times.seconds.end(), 0.0);
}

TEST(Timeline, EveryMomentOfAStepBelongsToOnePhase) {
  const Clock::time_point zero{};
  const OperationName conv{"conv1", "conv2d", false};
  Timeline timeline(1, 10);
  timeline.begin(zero);
  timeline.did(StepPhase::load, "waits for the batch", zero + 3ms);
  timeline.did(StepPhase::update, "update", zero + 10ms);
  const PhaseTimes times = timeline.end(zero + 12ms);
  EXPECT_DOUBLE_EQ(times[StepPhase::load], 0.003);
  EXPECT_DOUBLE_EQ(times[StepPhase::update], 0.007);
  EXPECT_DOUBLE_EQ(times[StepPhase::wait], 0.002) << "the rest of the step, until the others are done";
  EXPECT_DOUBLE_EQ(times.step, 0.012);
  EXPECT_NEAR(sum_of(times), times.step, 1e-12);
  EXPECT_EQ(timeline.kept_steps(), 1);
}

TEST(Timeline, SeparatesForwardAndBackwardOperations) {
  const OperationName conv{"conv1", "conv2d", false};
  const OperationName back{"conv1", "conv2d_backward_weights", true};
  Timeline timeline(1, 10);
  timeline.begin(Clock::now());
  timeline.did(conv);
  timeline.did(back);
  const PhaseTimes times = timeline.end(Clock::now());
  EXPECT_GT(times[StepPhase::forward], 0);
  EXPECT_GT(times[StepPhase::backward], 0);
  const auto rows = timeline.rows("replica 0", {});
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0].events[0].name, "conv1 conv2d");
  EXPECT_EQ(rows[0].events[0].category, "forward");
  EXPECT_EQ(rows[0].events[1].category, "backward");
}

TEST(Timeline, KeepsTheFirstStepsAndCountsAllSteps) {
  const Clock::time_point zero{};
  Timeline timeline(2, 100);
  for (int step = 0; step < 5; ++step) {
    timeline.begin(zero + step * 10ms);
    timeline.did(StepPhase::update, "update", zero + step * 10ms + 4ms);
    EXPECT_DOUBLE_EQ(timeline.end(zero + step * 10ms + 4ms)[StepPhase::update], 0.004);
  }
  EXPECT_EQ(timeline.kept_steps(), 2);
  EXPECT_EQ(timeline.rows("replica 0", zero)[0].events.size(), 4U);
}

TEST(Timeline, FullMemoryDropsIntervalsButNoTime) {
  const Clock::time_point zero{};
  Timeline timeline(1, 2);
  timeline.begin(zero);
  for (int i = 1; i <= 6; ++i) timeline.did(StepPhase::update, "update", zero + i * 1ms);
  EXPECT_DOUBLE_EQ(timeline.end(zero + 6ms)[StepPhase::update], 0.006);
  EXPECT_EQ(timeline.rows("replica 0", zero)[0].events.size(), 2U);
  EXPECT_EQ(timeline.kept_steps(), 0);
}

TEST(Timeline, ShowsASumFromItsTurnUntilItIsComplete) {
  const Clock::time_point zero{};
  Timeline timeline(1, 100);
  timeline.begin(zero);
  timeline.sum_began(zero + 1ms);
  timeline.sum_began(zero + 2ms);
  timeline.sums_complete(1, zero + 5ms);
  timeline.sums_complete(2, zero + 9ms);
  timeline.sums_finished();
  timeline.end(zero + 9ms);
  const auto rows = timeline.rows("replica 0", zero);
  ASSERT_EQ(rows.size(), 2U);
  ASSERT_EQ(rows[1].events.size(), 2U);
  EXPECT_EQ(rows[1].events[0].name, "sum of bucket 0");
  EXPECT_DOUBLE_EQ(rows[1].events[0].start, 1000);
  EXPECT_DOUBLE_EQ(rows[1].events[0].duration, 4000);
  EXPECT_DOUBLE_EQ(rows[1].events[1].start, 5000) << "the second had to wait for the first";
  EXPECT_DOUBLE_EQ(rows[1].events[1].duration, 4000);
}

TEST(Phases, TheFirstStepsCompileAndAreLeftOut) {
  std::vector<PhaseTimes> steps(5);
  for (size_t s = 0; s < steps.size(); ++s) {
    steps[s][StepPhase::forward] = s < 3 ? 100 : static_cast<double>(s);
    steps[s].step = steps[s][StepPhase::forward] + 1;
  }
  const PhaseSummary summary = summary_of(steps);
  EXPECT_EQ(summary.steps, 2);
  EXPECT_EQ(summary.left_out, 3);
  EXPECT_DOUBLE_EQ(summary.mean[StepPhase::forward], 3.5);
  EXPECT_DOUBLE_EQ(summary.mean.step, 4.5);
  EXPECT_EQ(summary_of(std::span(steps).first(2)).steps, 2)
      << "the summary uses the first steps if there are no others";
}

TEST(Phases, ConvertToJsonAndBack) {
  PhaseSummary summary{7, 3, {}, {}};
  summary.mean[StepPhase::exchange] = 0.25;
  summary.median.step = 1.5;
  const PhaseSummary back = phase_summary_from_json(to_json(summary));
  EXPECT_EQ(back.steps, 7);
  EXPECT_EQ(back.left_out, 3);
  EXPECT_DOUBLE_EQ(back.mean[StepPhase::exchange], 0.25);
  EXPECT_DOUBLE_EQ(back.median.step, 1.5);
}

struct Recorded {
  std::vector<PhaseTimes> phases;
  std::vector<TraceRow> rows;
  std::vector<std::vector<float>> state;
};

Recorded train(const SessionSetup& setup, bool recording, int64_t steps = 4) {
  auto session = make_session(convnet(), {.batch = 12, .clip_norm = 1.0}, setup);
  if (recording) session->record_phases(2);
  Recorded recorded;
  for (int64_t s = 1; s <= steps; ++s) {
    const Samples samples(12, {1, 28, 28}, 10, static_cast<uint64_t>(s));
    const StepResult result = session->train(samples.view(), {.learning_rate = 0.01F, .step = s, .epoch = 0});
    EXPECT_EQ(result.phases.has_value(), recording);
    if (result.phases) recorded.phases.push_back(*result.phases);
    session->evaluate(samples.view());  // must not count for any step
  }
  recorded.rows = session->trace({});
  for (const StateName& name : session->state_names()) recorded.state.push_back(session->read_state(name));
  return recorded;
}

const std::vector<std::pair<std::string, SessionSetup>>& setups() {
  static const std::vector<std::pair<std::string, SessionSetup>> all = {
      {"single", {}},
      {"mirrored", {.replicas = 2, .mirrored = true}},
      {"pipeline", {.replicas = 2, .pipeline = true, .strategy = {{"micro_batches", int64_t{3}}}}}};
  return all;
}

TEST(RecordedSession, TrainsWithTheSameBits) {
  for (const auto& [name, setup] : setups())
    EXPECT_EQ(train(setup, true).state, train(setup, false).state) << name;
}

TEST(RecordedSession, PhasesAddUpToTheStep) {
  for (const auto& [name, setup] : setups()) {
    for (const PhaseTimes& times : train(setup, true).phases) {
      EXPECT_NEAR(sum_of(times), times.step, 1e-9) << name;
      for (const StepPhase phase : {StepPhase::forward, StepPhase::backward, StepPhase::update})
        EXPECT_GT(times[phase], 0) << name << " " << name_of(phase);
    }
  }
}

TEST(RecordedSession, IntervalsOfAReplicaCoverItsStepWithoutGapOrOverlap) {
  for (const auto& [name, setup] : setups()) {
    const Recorded recorded = train(setup, true, 2);
    double covered = 0;
    for (const TraceRow& row : recorded.rows) {
      if (row.name.find("communication") != std::string::npos) continue;
      int gaps = 0;
      for (size_t e = 1; e < row.events.size(); ++e) {
        const TraceEvent& before = row.events[e - 1];
        const double gap = row.events[e].start - (before.start + before.duration);
        EXPECT_GT(gap, -1e-2) << name << ": " << before.name << " overlaps " << row.events[e].name;
        gaps += gap > 1e-2 ? 1 : 0;
      }
      EXPECT_EQ(gaps, 1) << name << ": only between the two steps";
      for (const TraceEvent& event : row.events) covered += event.duration / 1e6;
    }
    const double steps = recorded.phases[0].step + recorded.phases[1].step;
    EXPECT_NEAR(covered, steps * setup.replicas, 1e-6) << name;
  }
}

TEST(RecordedSession, HasARowForEachReplicaAndOneForItsCommunication) {
  const auto names = [](const Recorded& recorded) {
    std::vector<std::string> all;
    for (const TraceRow& row : recorded.rows) all.push_back(row.name.substr(0, row.name.find(',')));
    return all;
  };
  const auto of_category = [](const TraceRow& row, const std::string& category) {
    return std::count_if(row.events.begin(), row.events.end(),
                         [&](const TraceEvent& event) { return event.category == category; });
  };
  EXPECT_EQ(names(train({}, true)), (std::vector<std::string>{"replica 0"}));
  const Recorded mirrored = train(setups()[1].second, true);
  EXPECT_EQ(names(mirrored), (std::vector<std::string>{"replica 0", "replica 0", "replica 1", "replica 1"}));
  EXPECT_TRUE(mirrored.rows[1].name.ends_with(": communication"));
  EXPECT_TRUE(std::any_of(mirrored.rows[1].events.begin(), mirrored.rows[1].events.end(),
                          [](const TraceEvent& event) { return event.name == "sum of bucket 0"; }));
  const Recorded pipeline = train(setups()[2].second, true);
  EXPECT_EQ(names(pipeline)[0], "stage 0");
  const auto is_stage_1 = [](const TraceRow& row) { return row.name.starts_with("stage 1,"); };
  const auto stage_1 = std::find_if(pipeline.rows.begin(), pipeline.rows.end(), is_stage_1);
  ASSERT_NE(stage_1, pipeline.rows.end());
  EXPECT_GT(of_category(*stage_1, "wait"), 0);
  EXPECT_GT(of_category(*stage_1, "forward"), 0);
  EXPECT_GT(of_category(*stage_1, "backward"), 0);
}

TEST(RecordedSession, AssignsOperationsToForwardAndBackward) {
  const auto has = [](const std::set<std::string>& names, const std::string& part) {
    return std::any_of(names.begin(), names.end(),
                       [&](const std::string& name) { return name.find(part) != std::string::npos; });
  };
  for (const auto& [name, setup] : setups()) {
    const Recorded recorded = train(setup, true, 1);
    std::set<std::string> forward;
    std::set<std::string> backward;
    for (const TraceRow& row : recorded.rows) {
      for (const TraceEvent& event : row.events) {
        if (event.category == "forward") forward.insert(event.name);
        if (event.category == "backward") backward.insert(event.name);
      }
    }
    EXPECT_TRUE(has(forward, "conv2d")) << name;
    EXPECT_TRUE(has(forward, "cross_entropy")) << name;
    EXPECT_FALSE(has(forward, "backward")) << name;
    EXPECT_TRUE(has(backward, "conv2d_backward")) << name;
    EXPECT_TRUE(has(backward, "cross_entropy_backward")) << name;
    for (const char* layer : {"conv1 conv2d", "conv2 conv2d"}) EXPECT_FALSE(backward.contains(layer)) << name;
  }
}

TEST(RecordedSession, RecordsAPartWithoutSamples) {
  auto session = make_session(convnet(), {.batch = 12}, {.replicas = 2, .mirrored = true});
  session->record_phases(1);
  const Samples samples(1, {1, 28, 28}, 10);
  const StepResult result = session->train(samples.view(), {.learning_rate = 0.01F, .step = 1, .epoch = 0});
  EXPECT_NEAR(sum_of(*result.phases), result.phases->step, 1e-9);
}

}  // namespace
}  // namespace telar
