#include "telar/train/trainer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "support/endless.h"
#include "support/make_session.h"
#include "support/sentences.h"
#include "telar/core/error.h"
#include "telar/data/assignment.h"
#include "telar/data/dataset_batches.h"
#include "telar/data/synthetic.h"
#include "telar/nn/zoo.h"
#include "telar/train/batch_view.h"

namespace telar {
namespace {

using test::expect_error;

constexpr int64_t kBatch = 16;

std::unique_ptr<Session> session() {
  const Model model = make_model("mlp", {{"hidden", std::vector<int64_t>{8}}, {"dropout", 0.3}}, {6}, 3);
  StepOptions options;
  options.batch = kBatch;
  options.optimizer = AdamOptions{};
  return test::make_session(model, options, {});
}

DatasetPtr samples() { return synthetic({.samples = 50, .features = {6}, .classes = 3, .seed = 3}); }

TrainerOptions options() {
  TrainerOptions options;
  options.epochs = 3;
  options.batch = kBatch;
  options.evaluation_batch = 20;
  options.schedule = {.base = 0.05, .shape = CosineSchedule{}, .warmup_steps = 3, .total_steps = 12};
  options.seed = 9;
  return options;
}

/// A batch that is read sample by sample.
struct HandBatch {
  HandBatch(const Dataset& data, const std::vector<int64_t>& indices)
      : size(static_cast<int64_t>(indices.size())) {
    x.resize(indices.size() * 6);
    labels.resize(indices.size());
    for (size_t i = 0; i < indices.size(); ++i) {
      data.read(indices[i], {}, std::as_writable_bytes(std::span(x).subspan(6 * i, 6)),
                std::as_writable_bytes(std::span(labels).subspan(i, 1)));
      ids.push_back(indices[i]);
    }
  }
  BatchView view() const { return {size, {{"x", x.data()}, {"label", labels.data()}}, ids.data()}; }
  int64_t size;
  std::vector<float> x;
  std::vector<int32_t> labels;
  std::vector<int64_t> ids;
};

TEST(Trainer, EqualsAHandWrittenLoop) {
  const DatasetPtr data = samples();
  const auto trained = session();
  Trainer trainer(*trained, options());
  EXPECT_EQ(trainer.fit(*data, nullptr), FitOutcome::finished);

  const auto by_hand = session();
  const FixedSlice order(data->size(), kBatch, 9, true);
  int64_t step = 0;
  for (uint32_t epoch = 0; epoch < 3; ++epoch) {
    for (int64_t i = 0; i < 4; ++i) {
      ++step;
      const auto rate = static_cast<float>(learning_rate(options().schedule, step));
      by_hand->train(HandBatch(*data, order.samples(epoch, i)).view(), {rate, step, epoch});
    }
  }
  EXPECT_EQ(trainer.state().step, 12);
  EXPECT_EQ(trainer.state().samples, 150);
  for (const StateName& name : by_hand->state_names()) {
    EXPECT_EQ(trained->read_state(name), by_hand->read_state(name)) << name.text();
  }
}

TEST(Trainer, EvaluationDoesNotDependOnTheBatches) {
  const DatasetPtr data = samples();
  const auto trained = session();
  const Trainer trainer(*trained, options());
  const std::vector<double> means = trainer.evaluate(*data);
  double loss = 0;
  double right = 0;
  for (uint32_t i = 0; i < 50; ++i) {
    const HandBatch one(*data, {i});
    const std::vector<float> logits = trained->predict(one.view());
    double sum = 0;
    for (const float logit : logits) sum += std::exp(static_cast<double>(logit));
    const auto label = static_cast<size_t>(one.labels[0]);
    loss += std::log(sum) - static_cast<double>(logits[label]);
    right +=
        std::max_element(logits.begin(), logits.end()) - logits.begin() == static_cast<std::ptrdiff_t>(label)
            ? 1
            : 0;
  }
  EXPECT_NEAR(means[0], loss / 50, 1e-5);
  EXPECT_DOUBLE_EQ(means[1], right / 50);
}

/// Records the calls as text.
class Recorder final : public TrainingObserver {
 public:
  void epoch_began(const EpochStart& start, const TrainingState& /*state*/) override {
    told += "begin" + std::to_string(start.epoch) + " ";
  }
  void step_done(const StepReport& report, const TrainingState& state) override {
    told += std::to_string(state.step) + ":" + std::to_string(report.samples) +
            (report.last_of_epoch ? "! " : " ");
  }
  void epoch_done(const EpochReport& report, const TrainingState& state) override {
    told += "end" + std::to_string(report.epoch) + "@" + std::to_string(state.epoch) + " ";
    validated += report.validation.empty() ? 0 : 1;
  }
  void paused(const TrainingState& state) override {
    told += "|" + std::to_string(state.step_in_epoch) + " ";
  }
  std::string told;
  int validated = 0;
};

TEST(Trainer, NotifiesObserversOfEveryStepAndEpoch) {
  const DatasetPtr data = samples();
  const auto trained = session();
  TrainerOptions two = options();
  two.epochs = 2;
  Trainer trainer(*trained, two);
  Recorder recorder;
  trainer.fit(*data, data.get(), {&recorder});
  EXPECT_EQ(recorder.told, "begin0 1:16 2:16 3:16 4:2! end0@1 begin1 5:16 6:16 7:16 8:2! end1@2 ");
  EXPECT_EQ(recorder.validated, 2);
}

TEST(Trainer, PausesAfterEveryMultipleOfASteps) {
  const DatasetPtr data = samples();
  const auto paused = session();
  const auto straight = session();
  TrainerOptions two = options();
  two.epochs = 2;
  Trainer(*straight, two).fit(*data, nullptr);
  two.pause_steps = 3;
  Trainer trainer(*paused, two);
  Recorder recorder;
  trainer.fit(*data, nullptr, {&recorder});
  EXPECT_EQ(recorder.told, "begin0 1:16 2:16 3:16 |3 4:2! end0@1 begin1 5:16 6:16 |2 7:16 8:2! end1@2 ");
  for (const StateName& name : straight->state_names())
    EXPECT_EQ(paused->read_state(name), straight->read_state(name)) << name.text();
}

/// Endless batches of four features and four classes.
std::unique_ptr<Session> endless_session() {
  StepOptions step;
  step.batch = 8;
  return test::make_session(make_model("mlp", {{"hidden", std::vector<int64_t>{5}}}, {4}, 4), step,
                            {.session = {.seed = 2}});
}

TrainerOptions endless_options() {
  TrainerOptions all = options();
  all.batch = 8;
  all.epochs = 3;
  all.epoch_steps = 5;
  return all;
}

TEST(TrainerWithoutEnd, AnEpochHasTheStepsGivenAndContinuesWhereTheLastOneEnded) {
  for (const bool foresees : {true, false}) {
    const test::Endless source(8, foresees);
    const auto trained = endless_session();
    Trainer trainer(*trained, endless_options());
    EXPECT_EQ(trainer.fit(source, nullptr), FitOutcome::finished);
    EXPECT_EQ(trainer.state().step, 15);
    EXPECT_EQ(trainer.state().samples, 120);
    EXPECT_EQ(trainer.state().position, test::Endless::position_of(15));

    const auto by_hand = endless_session();
    Batch batch(source.tensors());
    for (int64_t step = 1; step <= 15; ++step) {
      source.read(test::Endless::position_of(step - 1), batch);
      const auto rate = static_cast<float>(learning_rate(endless_options().schedule, step));
      by_hand->train(view_of(batch), {rate, step, static_cast<uint32_t>((step - 1) / 5)});
    }
    for (const StateName& name : by_hand->state_names())
      EXPECT_EQ(trained->read_state(name), by_hand->read_state(name)) << name.text();
  }
}

TEST(TrainerWithoutEnd, APauseReadsNoBatchTwice) {
  const test::Endless source(8);
  const auto trained = endless_session();
  TrainerOptions pausing = endless_options();
  pausing.pause_steps = 2;
  Trainer(*trained, pausing).fit(source, nullptr);
  EXPECT_EQ(source.reads(), 15);
}

TEST(TrainerWithoutEnd, ARunContinuesAtItsStoredPosition) {
  const test::Endless source(8);
  const auto whole = endless_session();
  Trainer(*whole, endless_options()).fit(source, nullptr);

  const auto first = endless_session();
  Trainer stopped(*first, endless_options());
  int left = 7;
  EXPECT_EQ(stopped.fit(source, nullptr, {}, [&left] { return --left == 0; }), FitOutcome::stopped);
  const TrainingState state = training_state_from_json(to_json(stopped.state()), "state.json");
  EXPECT_EQ(state, stopped.state());
  EXPECT_GT(state.step_in_epoch, 0);

  const auto second = endless_session();
  for (const StateName& name : first->state_names()) second->write_state(name, first->read_state(name));
  Trainer resumed(*second, endless_options());
  resumed.restore(state);
  EXPECT_EQ(resumed.fit(source, nullptr), FitOutcome::finished);
  EXPECT_EQ(resumed.state().step, 15);
  for (const StateName& name : whole->state_names())
    EXPECT_EQ(second->read_state(name), whole->read_state(name)) << name.text();
}

TEST(TrainerWithoutEnd, AnEndThatNobodyKnewEndsTheTraining) {
  for (const int64_t last : {0, 3, 5, 7}) {
    const auto trained = endless_session();
    Trainer trainer(*trained, endless_options());
    Recorder recorder;
    EXPECT_EQ(trainer.fit(test::Endless(8, false, last), nullptr, {&recorder}), FitOutcome::finished);
    EXPECT_EQ(trainer.state().step, last);
    EXPECT_EQ(trainer.state().epoch, (last + 4) / 5) << "a part of an epoch counts as one";
  }
}

TEST(TrainerWithoutEnd, RefusesWhatIsMissingOrOfAnotherSource) {
  const auto trained = endless_session();
  TrainerOptions all = endless_options();
  all.epoch_steps = 0;
  Trainer nothing(*trained, all);
  expect_error([&] { nothing.fit(test::Endless(8), nullptr); }, {"no known end", "number of steps"});
  Trainer elsewhere(*trained, endless_options());
  TrainingState state;
  state.position = {"somewhere"};
  elsewhere.restore(state);
  expect_error([&] { elsewhere.fit(test::Endless(8), nullptr); }, {"'somewhere' is not a position"});
  state.position = {};
  state.step_in_epoch = 2;
  elsewhere.restore(state);
  expect_error([&] { elsewhere.fit(test::Endless(8), nullptr); }, {"cannot find step 2 of epoch 1"});
}

TEST(Trainer, RefusesAPositionThatContradictsTheStep) {
  const auto trained = session();
  const DatasetPtr data = samples();
  Trainer trainer(*trained, options());
  TrainingState state;
  state.step_in_epoch = 2;
  const FixedSlice assignment(50, kBatch, 9, true);
  state.position = DatasetBatches(*data, assignment).find(0, 1).value();
  trainer.restore(state);
  expect_error([&] { trainer.fit(*data, nullptr); }, {"position is not that of step 2 of epoch 1"});
}

TEST(Trainer, RefusesAnOrderOfAnotherVersionWithinAnEpoch) {
  const auto trained = session();
  Trainer trainer(*trained, options());
  TrainingState state;
  state.order_version = 1;
  trainer.restore(state);
  EXPECT_EQ(trainer.state().order_version, kOrderVersion);
  state.step_in_epoch = 2;
  expect_error([&] { trainer.restore(state); }, {"step 2 of an epoch", "order 1"});
}

TEST(Trainer, RefusesInvalidOptions) {
  const auto trained = session();
  const auto with = [&](auto change) {
    TrainerOptions wrong = options();
    change(wrong);
    Trainer(*trained, wrong);
  };
  EXPECT_THROW(with([](TrainerOptions& o) { o.epochs = 0; }), Error);
  EXPECT_THROW(with([](TrainerOptions& o) { o.batch = 0; }), Error);
  EXPECT_THROW(with([](TrainerOptions& o) { o.evaluation_batch = 0; }), Error);
  EXPECT_THROW(with([](TrainerOptions& o) { o.early_stopping.patience = -1; }), Error);
  EXPECT_THROW(with([](TrainerOptions& o) { o.early_stopping.metric = "top5"; }), Error);
}

// torch.optim.lr_scheduler.ReduceLROnPlateau(factor=0.5, patience=1, threshold=0, min_lr=0.03), whose
// patience is one less: it lowers the rate when more epochs than that have passed.
TEST(Trainer, APlateauLowersTheRateAsPyTorchDoes) {
  const std::vector<double> losses = {0.95, 0.9,  0.92, 1.02, 1.02, 1.02, 1.12, 1.14,
                                      1.09, 1.04, 1.14, 1.24, 1.34, 1.29, 0.1,  1.19};
  const std::vector<double> rates = {0.2,  0.2,  0.2,  0.1,  0.1,  0.05, 0.05, 0.03,
                                     0.03, 0.03, 0.03, 0.03, 0.03, 0.03, 0.03, 0.03};
  for (const bool loss : {true, false}) {
    TrainingState state;
    for (size_t i = 0; i < losses.size(); ++i) {
      const double value = loss ? losses[i] : -losses[i];
      const double before = state.plateau ? state.plateau->factor : 1;
      const PlateauSchedule rule{.patience = 2, .gamma = 0.5, .minimum = 0.03};
      const bool lower = judge_plateau(value, loss ? "loss" : "accuracy", rule, 0.2, state);
      EXPECT_NEAR(0.2 * state.plateau->factor, rates[i], 1e-15);
      EXPECT_EQ(lower, state.plateau->factor < before);
      EXPECT_EQ(training_state_from_json(to_json(state), "state.json"), state);
    }
  }
  TrainingState state;
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_FALSE(judge_plateau(kNan, "loss", {.patience = 2}, 0.2, state));
  EXPECT_TRUE(judge_plateau(kNan, "loss", {.patience = 2}, 0.2, state));
  EXPECT_EQ(training_state_from_json(to_json(state), "state.json"), state);
}

/// The learning rate of each epoch.
class Rates final : public TrainingObserver {
 public:
  void epoch_began(const EpochStart& start, const TrainingState&) override { epoch_ = start.epoch; }
  void step_done(const StepReport& report, const TrainingState&) override {
    of_epochs[epoch_].insert(report.learning_rate);
  }
  void epoch_done(const EpochReport& report, const TrainingState& state) override {
    if (report.lowered_rate) lowered.push_back(*report.lowered_rate);
    states.push_back(state);
  }
  std::map<int64_t, std::set<double>> of_epochs;
  std::vector<double> lowered;
  std::vector<TrainingState> states;

 private:
  int64_t epoch_ = 0;
};

TEST(Trainer, APlateauChangesTheStepsOfTheNextEpochAndIsResumed) {
  const DatasetPtr data = samples();
  TrainerOptions plateau = options();
  plateau.epochs = 6;
  // The loss stays: the parameters do not change in f32.
  plateau.schedule = {.base = 1e-20, .shape = PlateauSchedule{.patience = 2, .gamma = 0.5}};
  const auto trained = session();
  Trainer whole(*trained, plateau);
  Rates rates;
  whole.fit(*data, data.get(), {&rates});
  const std::map<int64_t, std::set<double>> expected = {{0, {1e-20}},   {1, {1e-20}},   {2, {1e-20}},
                                                        {3, {0.5e-20}}, {4, {0.5e-20}}, {5, {0.25e-20}}};
  EXPECT_EQ(rates.of_epochs, expected);
  EXPECT_EQ(rates.lowered, (std::vector<double>{0.5e-20, 0.25e-20}));

  const auto other = session();
  Trainer later(*other, plateau);
  later.restore(training_state_from_json(to_json(rates.states[3]), "state.json"));
  Rates resumed;
  later.fit(*data, data.get(), {&resumed});
  EXPECT_EQ(resumed.of_epochs, (std::map<int64_t, std::set<double>>{{4, {0.5e-20}}, {5, {0.25e-20}}}));
}

TEST(Trainer, APlateauWaitsForTheWarmUpAndKeepsTheMinimumOfAnotherRate) {
  const DatasetPtr data = samples();  // 4 steps in an epoch
  TrainerOptions plateau = options();
  plateau.epochs = 4;
  plateau.schedule = {
      .base = 1e-20, .shape = PlateauSchedule{.patience = 1, .gamma = 0.1}, .warmup_steps = 8};
  const auto trained = session();
  Trainer trainer(*trained, plateau);
  Rates rates;
  trainer.fit(*data, data.get(), {&rates});
  ASSERT_EQ(rates.lowered.size(), 2U);  // the second epoch is the first to count
  EXPECT_NEAR(rates.lowered[0], 1e-21, 1e-33);

  plateau.schedule.shape = PlateauSchedule{.patience = 9, .gamma = 0.1, .minimum = 4e-21};
  plateau.epochs = 5;
  const auto other = session();
  Trainer later(*other, plateau);
  later.restore(rates.states[3]);
  Rates resumed;
  later.fit(*data, data.get(), {&resumed});
  ASSERT_EQ(resumed.of_epochs.at(4).size(), 1U);
  EXPECT_DOUBLE_EQ(*resumed.of_epochs.at(4).begin(), 4e-21);
}

TEST(Trainer, ANonFiniteMetricIsNeverTheBest) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  constexpr double kInf = std::numeric_limits<double>::infinity();
  for (const bool loss : {true, false}) {
    const EarlyStopping rule{loss ? "loss" : "accuracy", 3};
    TrainingState state;
    state.step = state.epoch = 10;
    for (const double value : {kNan, -kNan}) {
      EXPECT_FALSE(judge_epoch(value, rule, state));
      EXPECT_FALSE(state.best);
    }
    EXPECT_TRUE(judge_epoch(0.5, rule, state));
    for (const double value : {kNan, loss ? -kInf : kInf}) EXPECT_FALSE(judge_epoch(value, rule, state));
    EXPECT_EQ(training_state_from_json(to_json(state), "state.json"), state);
    EXPECT_FALSE(state.stopped_early);
    EXPECT_FALSE(judge_epoch(kNan, rule, state));
    EXPECT_TRUE(state.stopped_early);
    EXPECT_EQ(state.best, 0.5);
  }
  EXPECT_EQ(not_finite_warning("loss", 0.25, 1), "");
  EXPECT_EQ(not_finite_warning("loss", kNan, 1),
            "the validation loss after epoch 2 is nan, so this epoch is no better than any other");
}

TEST(Trainer, AStopBreaksOffTheValidationWhichAResumedTrainingMakes) {
  const DatasetPtr data = samples();
  const auto whole = session();
  Trainer trainer(*whole, options());
  trainer.fit(*data, data.get());

  const auto first = session();
  Trainer stopped(*first, options());
  Recorder recorder;
  // Asked after each of 4 steps, then before each of 3 batches of the validation.
  int left = 6;
  EXPECT_EQ(stopped.fit(*data, data.get(), {&recorder}, [&left] { return --left <= 0; }),
            FitOutcome::stopped);
  EXPECT_EQ(recorder.told, "begin0 1:16 2:16 3:16 4:2! ");
  const TrainingState state = training_state_from_json(to_json(stopped.state()), "state.json");
  EXPECT_EQ(state.step_in_epoch, 4);
  EXPECT_FALSE(state.best);
  check_position(state, {4, first->metric_names().size()}, "state.json");

  const auto second = session();
  for (const StateName& name : first->state_names()) second->write_state(name, first->read_state(name));
  Trainer resumed(*second, options());
  resumed.restore(state);
  Recorder rest;
  EXPECT_EQ(resumed.fit(*data, data.get(), {&rest}), FitOutcome::finished);
  EXPECT_TRUE(rest.told.starts_with("begin0 end0@1 begin1 5:16 ")) << rest.told;
  EXPECT_EQ(resumed.state().best, trainer.state().best);
  EXPECT_EQ(resumed.state().best_step, trainer.state().best_step);
  for (const StateName& name : whole->state_names())
    EXPECT_EQ(second->read_state(name), whole->read_state(name)) << name.text();
}

class Repeated final : public TrainingObserver {
 public:
  void step_done(const StepReport& report, const TrainingState& state) override {
    if (report.again) told += fmt::format("{} ", state.step);
  }
  void epoch_done(const EpochReport& report, const TrainingState& /*state*/) override {
    if (report.again) told += fmt::format("end{} ", report.epoch);
  }
  std::string told;
};

// 4 steps an epoch: back from step 6 to step 2.
TEST(Trainer, SaysOfWhichStepsAndEpochsItHasTold) {
  const auto data = samples();
  const auto made = session();
  Trainer trainer(*made, options());
  Repeated repeated;
  int left = 2;
  const auto stop = [&left] { return --left <= 0; };
  EXPECT_EQ(trainer.fit(*data, nullptr, {&repeated}, stop), FitOutcome::stopped);
  const TrainingState kept = trainer.state();
  EXPECT_EQ(kept.step, 2);
  left = 4;  // not asked after the last step of an epoch, but before the next one
  EXPECT_EQ(trainer.fit(*data, nullptr, {&repeated}, stop), FitOutcome::stopped);
  EXPECT_EQ(trainer.state().step, 6);
  EXPECT_EQ(repeated.told, "");
  trainer.restore(kept);
  EXPECT_EQ(trainer.fit(*data, nullptr, {&repeated}), FitOutcome::finished);
  EXPECT_EQ(repeated.told, "3 4 end0 5 6 ");
}

}  // namespace
}  // namespace telar
