#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "support/make_session.h"
#include "support/memory_log.h"
#include "support/sentences.h"
#include "telar/data/streams/stream_batches.h"
#include "telar/data/synthetic.h"
#include "telar/nn/zoo.h"
#include "telar/train/batch_view.h"
#include "telar/train/job_reader.h"
#include "telar/train/job_stream.h"
#include "telar/train/metrics_observer.h"
#include "telar/train/publish.h"
#include "telar/train/trainer.h"

namespace telar {
namespace {

using test::MemoryTopic;
using test::says;
using test::sentence_of;

constexpr int64_t kEvaluatedBatch = 16;
constexpr int64_t kClasses = 4;

/// A topic of samples that can be learned; from message `drift_at` on, each class is the next one.
class EvaluatedTopic {
 public:
  explicit EvaluatedTopic(int64_t messages, int64_t drift_at = -1) {
    const DatasetPtr data = synthetic({.samples = messages, .features = {8}, .classes = kClasses, .seed = 3});
    format_.spec = data->spec();
    std::vector<std::byte> features(data->spec().feature_bytes());
    std::vector<std::byte> label(data->spec().label_bytes());
    std::string message;
    for (int64_t n = 0; n < messages; ++n) {
      data->read(n, {}, features, label);
      if (drift_at >= 0 && n >= drift_at) change_label(data->spec(), label);
      encode_message(format_, features, label, message);
      topic_.add(static_cast<size_t>(n % 2), message);
    }
  }

  std::unique_ptr<StreamBatches> open() {
    StreamOptions options;
    options.format = format_;
    options.batch = kEvaluatedBatch;
    options.starts = {0, 0};
    return std::make_unique<StreamBatches>(std::make_unique<test::MemoryLog>(topic_), std::move(options));
  }

 private:
  MemoryTopic topic_{2};
  MessageFormat format_;
};

std::unique_ptr<Session> evaluated_session(double dropout = 0, bool mirrored = false) {
  const Model model =
      make_model("mlp", {{"hidden", std::vector<int64_t>{16}}, {"dropout", dropout}}, {8}, kClasses);
  StepOptions options;
  options.batch = kEvaluatedBatch;
  options.optimizer = SgdOptions{};
  return test::make_session(model, options, {.replicas = mirrored ? 2 : 1, .mirrored = mirrored});
}

TrainerOptions evaluated_training(int64_t steps) {
  TrainerOptions options;
  options.epochs = 1;
  options.batch = kEvaluatedBatch;
  options.epoch_steps = steps;
  options.schedule = {.base = 0.1};
  options.shuffle = false;
  options.evaluation = StreamEvaluationOptions{.means = {.window = 40, .fading = 0.99}};
  return options;
}

DriftOptions adwin_of_errors() { return {.detector = AdwinSettings{}, .metric = 1, .is_accuracy = true}; }

class EvaluationLog final : public TrainingObserver {
 public:
  void step_done(const StepReport& report, const TrainingState& state) override {
    windows.push_back(state.evaluation->means.windowed());
    rates.push_back(report.learning_rate);
    if (report.drift != nullptr) drifts.push_back(report.drift->step);
  }
  std::vector<std::vector<double>> windows;
  std::vector<double> rates;
  std::vector<int64_t> drifts;
};

/// The losses and accuracies of each batch before the step on it, by calls of its own.
std::vector<std::vector<double>> tested_then_trained(Session& session, const StreamBatches& stream,
                                                     int64_t steps) {
  std::vector<std::vector<double>> tested;
  Batch batch(stream.tensors());
  Position position = stream.begin(0);
  for (int64_t step = 1; step <= steps; ++step, position = batch.after) {
    stream.read(position, batch);
    tested.push_back(session.evaluate(view_of(batch)));
    session.train(view_of(batch), {.learning_rate = 0.1F, .step = step, .samples = batch.size()});
  }
  return tested;
}

TEST(StreamEvaluation, TestsEachBatchWithTheParametersBeforeItsStep) {
  constexpr int64_t kSteps = 12;
  EvaluatedTopic topic(kSteps * kEvaluatedBatch);
  const auto stream = topic.open();
  for (const bool mirrored : {false, true}) {
    const auto by_hand = evaluated_session(0.4, mirrored);
    const auto expected = tested_then_trained(*by_hand, *stream, kSteps);
    TrainerOptions options = evaluated_training(kSteps);
    options.evaluation->separate_pass = true;
    const auto session = evaluated_session(0.4, mirrored);
    EvaluationLog log;
    Trainer(*session, options).fit(*stream, nullptr, {&log});
    ASSERT_EQ(log.windows.size(), static_cast<size_t>(kSteps));
    for (size_t step = 2; step < kSteps; ++step)  // three batches are a window
      for (size_t m = 0; m < 2; ++m) {
        const double sum = expected[step - 2][m] + expected[step - 1][m] + expected[step][m];
        EXPECT_NEAR(log.windows[step][m], sum / (3 * kEvaluatedBatch), 1e-6) << step;
      }
    EXPECT_EQ(test::all_state(*by_hand), test::all_state(*session)) << "the evaluation changes nothing";
  }
}

TEST(StreamEvaluation, TheTrainingPassTestsWithoutDropoutAsThePassOfItsOwn) {
  constexpr int64_t kSteps = 8;
  EvaluatedTopic topic(kSteps * kEvaluatedBatch);
  const auto stream = topic.open();
  const auto windows = [&](double dropout, bool separate) {
    TrainerOptions options = evaluated_training(kSteps);
    options.evaluation->separate_pass = separate;
    EvaluationLog log;
    Trainer(*evaluated_session(dropout), options).fit(*stream, nullptr, {&log});
    return log.windows;
  };
  const auto alike = [](const auto& a, const auto& b) {
    double most = 0;
    for (size_t step = 0; step < a.size(); ++step) most = std::max(most, std::abs(a[step][0] - b[step][0]));
    return most;
  };
  EXPECT_LT(alike(windows(0, false), windows(0, true)), 1e-6);
  EXPECT_GT(alike(windows(0.4, false), windows(0.4, true)), 1e-3) << "dropout makes the loss another one";
}

TEST(StreamEvaluation, AResumedRunContinuesBitForBit) {
  constexpr int64_t kSteps = 100;
  EvaluatedTopic topic(kSteps * kEvaluatedBatch, 60 * kEvaluatedBatch);
  TrainerOptions options = evaluated_training(kSteps);
  for (const bool page_hinkley : {false, true}) {
    options.evaluation->drift = adwin_of_errors();
    options.evaluation->drift->factor = 1.5;
    options.evaluation->drift->steps = 7;
    if (page_hinkley) options.evaluation->drift->detector = PageHinkleyOptions{.threshold = 10};
    const auto undisturbed = evaluated_session();
    const auto stream = topic.open();
    Trainer whole(*undisturbed, options);
    EvaluationLog log;
    whole.fit(*stream, nullptr, {&log});
    ASSERT_FALSE(log.drifts.empty());

    const auto session = evaluated_session();
    std::string state = to_json(TrainingState());
    for (int64_t stops = 0;; ++stops) {
      ASSERT_LT(stops, kSteps);
      Trainer trainer(*session, options);
      trainer.restore(training_state_from_json(state, "state.json"));
      const FitOutcome outcome = trainer.fit(*topic.open(), nullptr, {}, [] { return true; });
      state = to_json(trainer.state());
      if (outcome == FitOutcome::finished) break;
    }
    EXPECT_EQ(training_state_from_json(state, "state.json").evaluation, whole.state().evaluation);
    EXPECT_EQ(test::all_state(*session), test::all_state(*undisturbed));
  }
}

class PauseLog final : public TrainingObserver {
 public:
  void paused(const TrainingState& state) override { steps.push_back(state.step); }
  std::vector<int64_t> steps;
};

TEST(StreamEvaluation, PausesOnRequestAndGoesOnWithTheNextMessage) {
  constexpr int64_t kSteps = 9;
  EvaluatedTopic topic(kSteps * kEvaluatedBatch);
  const auto undisturbed = evaluated_session();
  const auto stream = topic.open();
  Trainer(*undisturbed, evaluated_training(kSteps)).fit(*stream, nullptr);
  const auto session = evaluated_session();
  TrainerOptions options = evaluated_training(kSteps);
  options.pause_steps = 5;
  int asked = 0;
  options.pause_requested = [&] { return ++asked % 3 == 0; };
  PauseLog log;
  Trainer trainer(*session, options);
  EXPECT_EQ(trainer.fit(*stream, nullptr, {&log}), FitOutcome::finished);
  EXPECT_EQ(log.steps, (std::vector<int64_t>{3, 5, 8}));
  EXPECT_EQ(trainer.state().step, kSteps);
  EXPECT_EQ(test::all_state(*session), test::all_state(*undisturbed));
}

TEST(StreamEvaluation, ADriftOfTheLabelsIsDetectedSoonAndNoneWithoutIt) {
  constexpr int64_t kSteps = 300;
  constexpr int64_t kDriftStep = 200;
  const auto drifts = [](int64_t drift_at, const DriftOptions& drift, bool mirrored) {
    EvaluatedTopic topic(kSteps * kEvaluatedBatch, drift_at);
    TrainerOptions options = evaluated_training(kSteps);
    options.evaluation->drift = drift;
    EvaluationLog log;
    Trainer(*evaluated_session(0, mirrored), options).fit(*topic.open(), nullptr, {&log});
    return log.drifts;
  };
  DriftOptions page_hinkley = adwin_of_errors();
  page_hinkley.detector = PageHinkleyOptions{};
  for (const DriftOptions& drift : {adwin_of_errors(), page_hinkley}) {
    EXPECT_TRUE(drifts(-1, drift, false).empty());
    const std::vector<int64_t> found = drifts(kDriftStep * kEvaluatedBatch, drift, false);
    ASSERT_FALSE(found.empty());
    EXPECT_GT(found.front(), kDriftStep);
    EXPECT_LE(found.front(), kDriftStep + 20);
    EXPECT_EQ(found.front(), drifts(kDriftStep * kEvaluatedBatch, drift, true).front()) << "mirrored";
  }
}

TEST(StreamEvaluation, ADriftRaisesTheRateOfTheStepsAfterThoseThatHaveBegun) {
  constexpr int64_t kSteps = 100;
  EvaluatedTopic topic(kSteps * kEvaluatedBatch, 60 * kEvaluatedBatch);
  TrainerOptions options = evaluated_training(kSteps);
  options.evaluation->drift = adwin_of_errors();
  options.evaluation->drift->factor = 3;
  options.evaluation->drift->steps = 4;
  EvaluationLog log;
  const auto session = evaluated_session();
  Trainer(*session, options).fit(*topic.open(), nullptr, {&log});
  ASSERT_FALSE(log.drifts.empty());
  const auto first = static_cast<size_t>(log.drifts.front()) + 5;
  for (size_t step = 1; step < first + 4; ++step)
    EXPECT_DOUBLE_EQ(log.rates[step - 1], step < first ? 0.1 : 0.3) << step;

  // By hand, with the rates that were reported.
  const auto expected = evaluated_session();
  const auto stream = topic.open();
  Batch batch(stream->tensors());
  Position position = stream->begin(0);
  for (int64_t step = 1; step <= kSteps; ++step, position = batch.after) {
    stream->read(position, batch);
    const auto rate = static_cast<float>(log.rates[static_cast<size_t>(step - 1)]);
    expected->train(view_of(batch), {.learning_rate = rate, .step = step, .samples = batch.size()});
  }
  EXPECT_EQ(test::all_state(*session), test::all_state(*expected));
}

TEST(StreamEvaluation, DriftsThatFollowEachOtherRaiseTheRateOnce) {
  StreamEvaluationOptions options;
  options.drift =
      DriftOptions{.detector = PageHinkleyOptions{.threshold = 0.5, .values = 1}, .factor = 2, .steps = 10};
  StreamEvaluation evaluation;
  const auto add = [&](double value, int64_t step) {
    return evaluation.add(options, std::vector<double>{value}, 1, step, step);
  };
  add(0, 1);
  EXPECT_TRUE(add(5, 2));
  EXPECT_EQ(evaluation.raised, (std::vector<RaisedRate>{{7, 16, 2}}));
  EXPECT_EQ(evaluation.rate_factor(6), 1);
  EXPECT_EQ(evaluation.rate_factor(7), 2);
  EXPECT_EQ(evaluation.rate_factor(16), 2);
  EXPECT_EQ(evaluation.rate_factor(17), 1);
  add(0, 3);
  EXPECT_TRUE(add(5, 8));
  EXPECT_EQ(evaluation.raised, (std::vector<RaisedRate>{{7, 22, 2}}));
  add(0, 9);
  EXPECT_TRUE(add(5, 21));  // steps up to 25 may have begun, and 23 to 25 had no raised rate
  EXPECT_EQ(evaluation.raised, (std::vector<RaisedRate>{{7, 22, 2}, {26, 35, 2}}));
  add(0, 22);
  EXPECT_TRUE(add(5, 60));
  EXPECT_EQ(evaluation.raised, (std::vector<RaisedRate>{{65, 74, 2}}));
  EXPECT_EQ(evaluation.drift_count, 4);
}

TEST(StreamEvaluation, ItsStateIsChecked) {
  StreamEvaluationOptions options;
  options.drift = DriftOptions{.detector = AdwinSettings{}, .metric = 1, .is_accuracy = true};
  TrainingState state;
  state.evaluation.emplace();
  for (int64_t step = 1; step <= 40; ++step)
    state.evaluation->add(options, std::vector<double>{5, step > 20 ? 1.0 : 9.0}, 10, step, 10 * step);
  state.evaluation->raised = {{3, 5, 2}};
  const auto whole = nlohmann::json::parse(to_json(state));
  EXPECT_EQ(training_state_from_json(whole.dump(), "state.json"), state);
  EXPECT_FALSE(state.evaluation->drifts.empty());
  const auto expect_wrong = [&](const std::string& pointer, const nlohmann::json& value,
                                const std::string& part) {
    nlohmann::json wrong = whole;
    wrong[nlohmann::json::json_pointer("/evaluation" + pointer)] = value;
    EXPECT_TRUE(says(sentence_of([&] { training_state_from_json(wrong.dump(), "state.json"); }), part));
  };
  expect_wrong("", 3, "state.json");
  expect_wrong("/window/0/0", 0, "evaluation: window is");
  expect_wrong("/window/0/0", 0.5, "evaluation: window is");
  expect_wrong("/window/0/1", "x", "it must be a list of lists of a number of samples and 2 sums");
  expect_wrong("/window/0", {1, 2}, "evaluation: window is");
  expect_wrong("/window", nlohmann::json::array(), "fading_samples is");
  expect_wrong("/fading_samples", -1, "fading_samples is -1");
  expect_wrong("/detector/name", "ddm", "detector: name is \"ddm\"; it must be none, adwin or page_hinkley");
  expect_wrong("/detector/rows/0", nlohmann::json::array(), "detector: rows is");
  expect_wrong("/detector/rows/0/0/1", -1, "detector: rows is");
  expect_wrong("/detector", {{"name", "page_hinkley"}}, "the field values is missing");
  expect_wrong("/drifts/0/0", -1, "evaluation: drifts is");
  expect_wrong("/raised/0/2", 0, "evaluation: raised is");
  expect_wrong("/drift_count", -1, "drift_count is -1");
  EXPECT_TRUE(says(sentence_of([&] {
                     check_position(state, {10, 3}, "state.json");
                   }),
                   "evaluation has sums of 2 metrics; the job has 3"));
}

TEST(StreamEvaluation, AJobSaysHow) {
  const std::string text =
      "model: mlp\n"
      "data: {source: kafka, brokers: \"localhost:1\", topic: events, end: now}\n";
  const auto options_of = [&](const std::vector<std::string>& given,
                              const std::vector<std::string>& metrics) {
    return job_evaluation(parse_job(text, "job.yaml", given), metrics);
  };
  const StreamEvaluationOptions usual = options_of({}, {"loss", "accuracy"});
  EXPECT_FALSE(usual.separate_pass);
  EXPECT_FALSE(usual.drift);
  EXPECT_EQ(usual.means.window, 10'000);
  const StreamEvaluationOptions chosen = options_of(
      {"training.prequential={pass: evaluation, window: 7, fading: 0.5}",
       "training.drift={detector: page_hinkley, threshold: 9, action: raise_rate, factor: 4, steps: 30}"},
      {"loss", "accuracy"});
  EXPECT_TRUE(chosen.separate_pass);
  EXPECT_EQ(chosen.means.window, 7);
  EXPECT_EQ(chosen.means.fading, 0.5);
  EXPECT_EQ(std::get<PageHinkleyOptions>(chosen.drift->detector).threshold, 9);
  EXPECT_TRUE(chosen.drift->is_accuracy);
  EXPECT_EQ(chosen.drift->metric, 1U);
  EXPECT_EQ(chosen.drift->factor, 4);
  EXPECT_EQ(chosen.drift->steps, 30);
  EXPECT_FALSE(options_of({"training.drift.detector=adwin"}, {"loss"}).drift->is_accuracy);
  EXPECT_EQ(options_of({"training.drift.detector=adwin"}, {"loss"}).drift->factor, 1);
  const auto expect_mistake = [&](const std::vector<std::string>& given, const std::string& part) {
    EXPECT_TRUE(says(sentence_of([&] { options_of(given, {"loss"}); }), part));
  };
  expect_mistake({"training.drift={detector: adwin, signal: error}"}, "which needs the accuracy of classes");
  expect_mistake({"training.drift={detector: adwin, threshold: 1}"},
                 "is for training.drift.detector page_hinkley");
  expect_mistake({"training.drift={detector: adwin, factor: 2}"}, "is for training.drift.action raise_rate");
  expect_mistake({"training.drift={delta: 0.1}"}, "is for training.drift.detector adwin");
  expect_mistake(
      {"strategy.name=async_sgd", "training.prequential.pass=evaluation"},
      "the workers of strategy async_sgd report the losses and accuracies of their training steps");
  expect_mistake({"strategy.name=async_sgd", "training.drift={detector: adwin, action: raise_rate}"},
                 "take the learning rate from the schedule, so a drift cannot raise it");
  for (const char* schedule : {"constant", "step", "exponential", "inverse_time"})
    EXPECT_NO_THROW(options_of(
        {"data.end=never", "training.epoch_steps=9", fmt::format("schedule={}", schedule)}, {"loss"}));
  expect_mistake({"data.end=never", "training.epoch_steps=9", "schedule=cosine"},
                 "schedule.name is cosine, which ends with the last step, and data.end is never");
  expect_mistake({"output={checkpoint_messages: 100, checkpoint_steps: 3}"}, "give only one of the two");
  expect_mistake({"output.checkpoint_minutes=5", "strategy.name=async_sgd"}, "set output.checkpoint_steps");
  EXPECT_TRUE(says(sentence_of([] {
                     parse_job("model: mlp\ndata: synthetic\ntraining: {drift: {detector: adwin}}\n",
                               "job.yaml");
                   }),
                   "training.drift.detector is for data.source kafka"));
}

TEST(StreamEvaluation, PrometheusReadsTheTrainingAfterEachStep) {
  constexpr int64_t kSteps = 8;
  EvaluatedTopic topic(2 * kSteps * kEvaluatedBatch);
  const auto stream = topic.open();
  StreamPace pace([&](const Position& position) { return stream->behind(position); });
  MetricsObserver observer(std::make_unique<MetricsServer>("127.0.0.1:0"),
                           {.figures = Figures(std::vector<std::string>{"loss", "accuracy"}),
                            .pace = &pace,
                            .workers = [] { return int64_t{3}; },
                            .workers_wanted = [] { return int64_t{4}; },
                            .left_out = [] { return int64_t{5}; },
                            .repeated_parts = [] { return int64_t{7}; }});
  const auto session = evaluated_session();
  Trainer trainer(*session, evaluated_training(kSteps));
  trainer.fit(*stream, nullptr, {&pace, &observer});
  const std::string page = observer.page();
  const auto shows = [&](const std::string& name, double value) {
    return says(page, fmt::format("\n{} {}\n", name, value));
  };
  EXPECT_TRUE(shows("telar_steps_total", kSteps));
  EXPECT_TRUE(shows("telar_samples_total", kSteps * kEvaluatedBatch));
  EXPECT_TRUE(shows("telar_window_loss", trainer.state().evaluation->means.windowed()[0]));
  EXPECT_TRUE(shows("telar_fading_accuracy", trainer.state().evaluation->means.fading()[1]));
  EXPECT_TRUE(shows("telar_lag_messages", kSteps * kEvaluatedBatch));
  EXPECT_TRUE(shows("telar_lag_seconds", kSteps * kEvaluatedBatch / pace.rate()));
  EXPECT_TRUE(shows("telar_workers", 3));
  EXPECT_TRUE(shows("telar_workers_wanted", 4));
  EXPECT_TRUE(shows("telar_left_out_messages_total", 5));
  EXPECT_TRUE(shows("telar_repeated_parts_total", 7));
  EXPECT_TRUE(shows("telar_learning_rate", 0.1));
  EXPECT_EQ(page.find("staleness"), std::string::npos) << "there are no servers";
}

TEST(PublishDrift, ChangesLabelsAndTargets) {
  EXPECT_EQ(labels_drift_at("labels@100000"), 100'000);
  for (const char* wrong : {"", "labels", "labels@", "labels@-3", "labels@3x", "features@3"})
    EXPECT_TRUE(says(sentence_of([&] { labels_drift_at(wrong); }), "it must be labels@N")) << wrong;
  SampleSpec classes;
  classes.classes = 3;
  for (const int32_t label : {0, 1, 2}) {
    int32_t changed = label;
    change_label(classes, std::as_writable_bytes(std::span(&changed, 1)));
    EXPECT_EQ(changed, (label + 1) % 3);
  }
  std::vector<float> targets = {1, -2};
  change_label({.labels = {2}}, std::as_writable_bytes(std::span(targets)));
  EXPECT_EQ(targets, (std::vector<float>{-1, 2}));
}

}  // namespace
}  // namespace telar
