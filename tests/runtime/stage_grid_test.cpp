#include <gtest/gtest.h>

#include "support/grids.h"
#include "support/sentences.h"
#include "support/staged.h"
#include "telar/runtime/shared_state.h"

namespace telar {
namespace {

using test::make_session;
using test::relative_l2;
using test::Samples;
using test::StagedCase;
using test::StageGridCase;

std::unique_ptr<Session> staged_session(const Model& model, const StepOptions& step,
                                        const StageGridCase& grid) {
  return make_session(model, step,
                      {.replicas = grid.workers(), .name = "hybrid", .strategy = test::options_of(grid)});
}

std::vector<StageGridCase> stage_grids() {
  if (test::kSanitized) return {{2, 2}};
  return {{1, 3}, {2, 2}, {3, 2}, {2, 4}};
}

// Batch norm has the statistics of micro-batches, so it is compared with other strategies below.
TEST(StageGrid, GradientsEvaluationAndPredictionAreThoseOfOneDevice) {
  const StepOptions step{.batch = 13, .optimizer = SgdOptions{}};
  for (const StagedCase& tested : test::staged_cases()) {
    if (tested.text == "normalised") continue;
    for (const StageGridCase& grid : stage_grids()) {
      const auto one = make_session(tested.model, step, {});
      const auto several = staged_session(tested.model, step, grid);
      test::fill_clear_of_zero(*one);
      test::fill_clear_of_zero(*several);
      const Samples samples(13, tested.model.sample, tested.classes, 6);
      const StepInputs inputs{.learning_rate = 0, .step = 1, .epoch = 2};
      const auto expected = one->train(samples.view(), inputs);
      const auto result = several->train(samples.view(), inputs);
      const std::string text = tested.text + " " + grid.text();
      for (size_t m = 0; m < expected.metrics.size(); ++m)
        EXPECT_NEAR(result.metrics[m], expected.metrics[m], 1e-5 * std::abs(expected.metrics[m])) << text;
      EXPECT_LT(relative_l2(test::all_gradients(*several), test::all_gradients(*one)), 1e-6) << text;
      const double evaluated = one->evaluate(samples.view())[0];
      EXPECT_NEAR(several->evaluate(samples.view())[0], evaluated, 1e-5 * std::abs(evaluated)) << text;
      EXPECT_LT(relative_l2(several->predict(samples.view()), one->predict(samples.view())), 1e-5) << text;
    }
  }
}

// A micro-batch of a pipeline has the statistics that a replica has with the same samples.
TEST(StageGrid, BatchNormOfMicroBatchesEqualsThatOfMirroredReplicas) {
  const StepOptions step{.batch = 16, .optimizer = SgdOptions{.momentum = 0.9}};
  const Samples samples(16, {2, 8, 8}, 5);
  const auto mirrored = make_session(test::normalised(), step, {.replicas = 8, .mirrored = true});
  const auto several = staged_session(test::normalised(), step, {2, 2});  // with 4 micro-batches
  for (int64_t s = 1; s <= 3; ++s) {
    mirrored->train(samples.view(), {.learning_rate = 0.01F, .step = s});
    several->train(samples.view(), {.learning_rate = 0.01F, .step = s});
  }
  EXPECT_LT(relative_l2(test::all_state(*several), test::all_state(*mirrored)), 1e-6);
}

TEST(StageGrid, BatchesOfAnySizeAreExactAndGiveTheSameBitsTwice) {
  const StagedCase tested = test::staged_cases()[0];
  const StepOptions step{.batch = 9, .optimizer = AdamOptions{}, .clip_norm = 0.5};
  const Samples samples(9, tested.model.sample, tested.classes);
  const auto run = [&](Session& session) {
    int64_t number = 0;
    for (const int64_t size : {9, 1, 2, 9, 7})
      session.train(samples.view(0, size), {.learning_rate = 0.01F, .step = ++number});
    return test::all_state(session);
  };
  const auto one = make_session(tested.model, step, {});
  const std::vector<float> state = run(*staged_session(tested.model, step, {2, 2}));
  EXPECT_LT(relative_l2(state, run(*one)), 1e-5);
  EXPECT_EQ(run(*staged_session(tested.model, step, {2, 2})), state);
}

TEST(StageGrid, EachStageKeepsOnlyItsLayers) {
  const StagedCase tested = test::staged_cases()[0];
  const StepOptions step{.batch = 8, .optimizer = AdamOptions{}};
  const auto one = make_session(tested.model, step, {});
  const auto several = staged_session(tested.model, step, {2, 3});
  std::map<std::string, int> kept;
  for (int64_t w = 0; w < several->program().mesh.workers(); ++w)
    for (const auto& [piece, copies] : kept_by(several->program(), w)) ++kept[piece.name()];
  for (const ParameterInfo& parameter : several->program().parameters)
    EXPECT_EQ(kept[parameter.name], 2) << parameter.name;
}

TEST(StageGrid, RefusesWhatCannotBe) {
  const auto refused = [](const Attributes& options, const std::vector<std::string_view>& parts) {
    test::expect_error([&] { make_strategy("hybrid", options); }, parts);
  };
  refused({{"model", int64_t{1}}}, {"nothing is divided", "'mirrored'"});
  refused({{"model", int64_t{1}}, {"stages", int64_t{2}}, {"batch_norm", "synchronised"}},
          {"strategy.batch_norm", "each micro-batch"});
  refused({{"model", int64_t{1}}, {"stages", int64_t{2}}, {"split", std::vector<std::string>{"fc1=rows"}}},
          {"strategy.split"});
  test::expect_error(
      [] {
        make_session(test::staged_cases()[0].model, {.batch = 8},
                     {.replicas = 3, .name = "hybrid", .strategy = test::options_of({2, 2})});
      },
      {"strategy 'hybrid' has 4 workers", "1 processes with 3 workers each"});
}

}  // namespace
}  // namespace telar
