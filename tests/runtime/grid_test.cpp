#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "support/grids.h"
#include "support/sanitizers.h"
#include "support/sentences.h"

namespace telar {
namespace {

using test::all_state;
using test::copy_state;
using test::Grid;
using test::GridCase;
using test::Samples;

std::unique_ptr<Session> single_session(const GridCase& tested, const StepOptions& options) {
  return test::make_session(tested.model, options, {});
}

std::unique_ptr<Session> grid_session(const GridCase& tested, const Grid& grid, const StepOptions& options) {
  Attributes strategy = grid.options;
  strategy.set("split", tested.split);
  strategy.set("batch_norm", "synchronised");
  return test::make_session(tested.model, options,
                            {.replicas = grid.workers, .name = grid.strategy, .strategy = strategy});
}

std::vector<Grid> grids() {
  if (test::kSanitized) return {test::tensor_grid(3), test::hybrid_grid(2, 2)};
  return {test::tensor_grid(2), test::tensor_grid(3), test::hybrid_grid(2, 2), test::hybrid_grid(1, 4)};
}

/// Parameters: indices in grid_cases() and grids().
using GridParam = std::tuple<size_t, size_t>;

std::string name_of_case(const testing::TestParamInfo<GridParam>& info) {
  return test::grid_cases()[std::get<0>(info.param)].text + "_" + grids()[std::get<1>(info.param)].text;
}

class GridModels : public ::testing::TestWithParam<GridParam> {
 protected:
  static GridCase tested() { return test::grid_cases()[std::get<0>(GetParam())]; }
  static Grid grid() { return grids()[std::get<1>(GetParam())]; }
};

TEST_P(GridModels, GradientsAndMetricsAreThoseOfOneDevice) {
  const GridCase tested = this->tested();
  const StepOptions options{.batch = 11, .optimizer = SgdOptions{}};
  const Samples samples(11, tested.sample, tested.classes, 6);
  const auto one = single_session(tested, options);
  const auto several = grid_session(tested, grid(), options);
  test::fill_clear_of_zero(*one);
  test::fill_clear_of_zero(*several);
  const StepInputs inputs{.learning_rate = 0, .step = 1, .epoch = 3};
  const StepResult expected = one->train(samples.view(), inputs);
  const StepResult result = several->train(samples.view(), inputs);
  ASSERT_TRUE(result.finite);
  for (size_t m = 0; m < expected.metrics.size(); ++m)
    EXPECT_NEAR(result.metrics[m], expected.metrics[m], 1e-5 * std::abs(expected.metrics[m]));
  EXPECT_LT(test::relative_l2(test::all_gradients(*several), test::all_gradients(*one)), tested.tolerance);
  const auto evaluated = several->evaluate(samples.view());
  const auto evaluated_by_one = one->evaluate(samples.view());
  EXPECT_NEAR(evaluated[0], evaluated_by_one[0], 1e-5 * std::abs(evaluated_by_one[0]));
  EXPECT_LT(test::relative_l2(several->predict(samples.view()), one->predict(samples.view())), 1e-5);
}

INSTANTIATE_TEST_SUITE_P(All, GridModels,
                         ::testing::Combine(::testing::Range(size_t{0}, test::grid_cases().size()),
                                            ::testing::Range(size_t{0}, grids().size())),
                         name_of_case);

TEST(Grid, BatchesWithFewerSamplesThanWorkersAreExact) {
  const GridCase tested = test::grid_cases()[1];
  const StepOptions options{.batch = 8, .optimizer = SgdOptions{.momentum = 0.9}};
  const Samples samples(8, tested.sample, tested.classes);
  for (const Grid& grid : {test::tensor_grid(3), test::hybrid_grid(2, 2)}) {
    const auto one = single_session(tested, options);
    const auto several = grid_session(tested, grid, options);
    int64_t step = 0;
    for (const int64_t size : {1, 2, 8, 3, 1}) {
      const StepInputs inputs{.learning_rate = 0.1F, .step = ++step};
      one->train(samples.view(0, size), inputs);
      several->train(samples.view(0, size), inputs);
      EXPECT_LT(test::relative_l2(all_state(*several), all_state(*one)), 1e-6) << grid.text << " " << size;
      EXPECT_LT(
          test::relative_l2(several->predict(samples.view(0, size)), one->predict(samples.view(0, size))),
          1e-5);
    }
  }
}

TEST(Grid, AnEmbeddingDividedByRowsIsThatOfOneDevice) {
  const GridCase tested = test::words_case();
  const StepOptions options{.batch = 7, .optimizer = SgdOptions{.momentum = 0.9}};
  test::TokenSamples samples(7);
  for (const Grid& grid : {test::tensor_grid(2), test::tensor_grid(3), test::hybrid_grid(2, 2)}) {
    const auto one = single_session(tested, options);
    const auto several = grid_session(tested, grid, options);
    int64_t step = 0;
    for (const int64_t size : {7, 1, 2, 7}) {
      const StepInputs inputs{.learning_rate = 0.1F, .step = ++step};
      const BatchView batch = samples.view(0, size);
      one->train(batch, inputs);
      several->train(batch, inputs);
      EXPECT_LT(test::relative_l2(test::all_gradients(*several), test::all_gradients(*one)), 1e-6)
          << grid.text << " " << size;
      EXPECT_LT(test::relative_l2(all_state(*several), all_state(*one)), 1e-6) << grid.text << " " << size;
      EXPECT_LT(test::relative_l2(several->predict(batch), one->predict(batch)), 1e-5);
      const double evaluated = one->evaluate(batch)[0];
      EXPECT_NEAR(several->evaluate(batch)[0], evaluated, 1e-5 * std::abs(evaluated));
    }
  }
}

TEST(Grid, ATokenThatNoWorkerHasIsNamed) {
  const GridCase tested = test::words_case();
  const auto session = grid_session(tested, test::tensor_grid(2), {.batch = 4, .optimizer = SgdOptions{}});
  test::TokenSamples samples(4);
  samples.tokens()[7] = 23;
  test::expect_error(
      [&] { session->train(samples.view(0, 4), {.learning_rate = 0.1F, .step = 1}); },
      {"layer 'embedding': token 23 at position 7", "the table has 23 rows, so tokens are 0 to 22"});
}

TEST(Grid, AHundredStepsFollowOneDevice) {
  const GridCase tested = test::grid_cases()[2];  // the demo's network, whose ReLUs rounding hardly switches
  const StepOptions options{.batch = 12, .optimizer = AdamOptions{}};
  const Samples samples(24, tested.sample, tested.classes);
  const auto one = single_session(tested, options);
  const auto several = grid_session(tested, test::hybrid_grid(2, 2), options);
  for (int64_t step = 1; step <= (test::kSanitized ? 10 : 100); ++step) {
    const StepInputs inputs{.learning_rate = 1e-4F, .step = step, .epoch = static_cast<uint32_t>(step)};
    const BatchView batch = samples.view(step % 2 * 12, step % 2 * 12 + 12);
    const double expected = one->train(batch, inputs).metrics[0];
    ASSERT_NEAR(several->train(batch, inputs).metrics[0], expected, 1e-5 * expected) << "step " << step;
  }
}

TEST(Grid, GivesTheSameBitsTwice) {
  const GridCase tested = test::grid_cases()[1];
  const StepOptions options{.batch = 9, .optimizer = AdamOptions{}, .clip_norm = 0.5};
  const Samples samples(9, tested.sample, tested.classes);
  std::vector<std::vector<float>> states;
  for (int run = 0; run < 2; ++run) {
    const auto session = grid_session(tested, test::hybrid_grid(2, 2), options);
    for (int64_t step = 1; step <= 10; ++step)
      session->train(samples.view(), {.learning_rate = 0.01F, .step = step});
    states.push_back(all_state(*session));
  }
  EXPECT_EQ(states[0], states[1]);
}

TEST(Grid, ClipsByTheNormOfAllPieces) {
  const GridCase tested = test::grid_cases()[1];
  const StepOptions options{.batch = 9, .optimizer = SgdOptions{}, .clip_norm = 0.01};
  const Samples samples(9, tested.sample, tested.classes);
  const auto one = single_session(tested, options);
  const auto several = grid_session(tested, test::hybrid_grid(2, 2), options);
  const auto before = all_state(*one);
  one->train(samples.view(), {.learning_rate = 1.0F, .step = 1});
  several->train(samples.view(), {.learning_rate = 1.0F, .step = 1});
  EXPECT_LT(test::relative_l2(all_state(*several), all_state(*one)), 1e-6);
  auto moved = all_state(*one);
  for (size_t i = 0; i < moved.size(); ++i) moved[i] -= before[i];
  EXPECT_NEAR(test::relative_l2(moved, std::vector<float>(moved.size(), 0)), 0.01, 1e-4);
}

TEST(Grid, ContinuesOnOneDeviceAndBack) {
  const GridCase tested = test::grid_cases()[1];
  const StepOptions options{.batch = 10, .optimizer = AdamOptions{}};
  const Samples samples(10, tested.sample, tested.classes);
  const auto one = single_session(tested, options);
  const auto several = grid_session(tested, test::tensor_grid(2), options);
  const auto resumed = single_session(tested, options);
  const auto back = grid_session(tested, test::hybrid_grid(2, 2), options);
  const auto steps = [&](Session& session, int64_t first, int64_t last) {
    for (int64_t step = first; step <= last; ++step)
      session.train(samples.view(), {.learning_rate = 0.01F, .step = step});
  };
  steps(*one, 1, 15);
  steps(*several, 1, 5);
  copy_state(*several, *resumed);
  EXPECT_EQ(all_state(*resumed), all_state(*several)) << "files are canonical: no bit changes on the way";
  steps(*resumed, 6, 10);
  copy_state(*resumed, *back);
  steps(*back, 11, 15);
  EXPECT_LT(test::relative_l2(all_state(*back), all_state(*one)), 1e-5);
}

TEST(Grid, KeepsAPartOfTheState) {
  const Model model = make_model("mlp", {{"hidden", std::vector<int64_t>{512, 512}}}, {512}, 10);
  const StepOptions options{.batch = 16, .optimizer = AdamOptions{}};
  const auto one = test::make_session(model, options, {});
  const auto several = test::make_session(model, options, {.replicas = 2, .name = "tensor", .strategy = {}});
  const auto whole = static_cast<double>(one->memory().parameter_bytes);
  EXPECT_LT(static_cast<double>(several->memory().parameter_bytes) / 2, 0.55 * whole);
}

TEST(Grid, AllWorkersStopAtALossThatIsNotFinite) {
  const GridCase tested = test::grid_cases()[1];
  const StepOptions options{.batch = 6, .optimizer = SgdOptions{}};
  const Samples samples(6, tested.sample, tested.classes);
  const auto session = grid_session(tested, test::tensor_grid(2), options);
  session->write_state("fc3.bias", std::vector<float>(10, std::numeric_limits<float>::infinity()));
  const auto before = session->read_state("fc1.weight");
  const StepInputs inputs{.learning_rate = 0.1F, .step = 1};
  EXPECT_FALSE(session->train(samples.view(), inputs).finite);
  EXPECT_EQ(session->read_state("fc1.weight"), before);
  EXPECT_EQ(session->find_non_finite(samples.view(), inputs),
            "parameter 'fc3.bias' (from an earlier update)");
}

TEST(Grid, AllWorkersSeeAGradientThatIsNotFiniteWhereverItIs) {
  const GridCase tested = test::grid_cases()[1];
  const StepOptions options{.batch = 6, .optimizer = SgdOptions{}};
  std::vector<float> x(6 * 12, 1.0F);
  const std::vector<int32_t> labels(6, 1);
  const std::vector<int64_t> ids{0, 1, 2, 3, 4, 5};
  x[5 * 12] = 1e38F;
  const BatchView batch{6, {{"x", x.data()}, {"label", labels.data()}}, ids.data()};
  const auto session = grid_session(tested, test::tensor_grid(2), options);
  test::let_gradient_overflow(*session);
  EXPECT_TRUE(std::isfinite(session->evaluate(batch)[0]));
  EXPECT_FALSE(session->train(batch, {.learning_rate = 0.1F, .step = 1}).finite);
}

TEST(Grid, RefusesWhatCannotBeDivided) {
  const GridCase tested = test::grid_cases()[0];
  const StepOptions options{.batch = 8, .optimizer = SgdOptions{}};
  const auto refused = [&](int workers, const std::string& name, const Attributes& strategy,
                           const std::vector<std::string_view>& parts) {
    test::expect_error(
        [&] {
          test::make_session(tested.model, options,
                             {.replicas = workers, .name = name, .strategy = strategy});
        },
        parts);
  };
  refused(3, "tensor", {{"ways", int64_t{2}}}, {"strategy 'tensor' has 2 workers", "3 workers each"});
  refused(16, "tensor", {{"ways", int64_t{16}}, {"split", std::vector<std::string>{"fc3=columns"}}},
          {"layer 'fc3' has 10 output features", "16 workers"});
  refused(2, "tensor", {{"split", std::vector<std::string>{"conv*=columns"}}},
          {"matches no layer", "fc1, fc2, fc3"});
  refused(2, "tensor", {{"split", std::vector<std::string>{"fc1"}}}, {"PATTERN=columns"});
  refused(2, "tensor", {{"split", std::vector<std::string>{"*=whole"}}}, {"no layer is worth dividing"});
}

}  // namespace
}  // namespace telar
