#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "support/grids.h"
#include "support/sentences.h"
#include "support/staged.h"
#include "telar/runtime/shared_state.h"

namespace telar {
namespace {

using test::all_state;
using test::GridCase;
using test::make_session;
using test::relative_l2;
using test::Samples;
using test::StageGridCase;

/// Pipelines whose stages divide their layers among `model` workers.
std::unique_ptr<Session> divided_stages(const GridCase& tested, const StepOptions& step,
                                        const StageGridCase& grid) {
  return make_session(
      tested.model, step,
      {.replicas = grid.workers(), .name = "hybrid", .strategy = test::options_of(grid, tested.split)});
}

constexpr StageGridCase kTwoOfTwo{.data = 1, .stages = 2, .model = 2};
constexpr StageGridCase kTwiceTwoOfTwo{.data = 2, .stages = 2, .model = 2};

void expect_as_on_one_device(const GridCase& tested, const StageGridCase& grid, const BatchView& batch) {
  const std::string text = tested.text + " " + grid.text();
  const StepOptions step{.batch = batch.size, .optimizer = SgdOptions{}};
  const auto one = make_session(tested.model, step, {});
  const auto several = divided_stages(tested, step, grid);
  test::fill_clear_of_zero(*one);
  test::fill_clear_of_zero(*several);
  const StepInputs inputs{.learning_rate = 0, .step = 1, .epoch = 2};
  const StepResult expected = one->train(batch, inputs);
  const StepResult result = several->train(batch, inputs);
  ASSERT_TRUE(result.finite) << text;
  for (size_t m = 0; m < expected.metrics.size(); ++m)
    EXPECT_NEAR(result.metrics[m], expected.metrics[m], 1e-5 * std::abs(expected.metrics[m])) << text;
  EXPECT_LT(relative_l2(test::all_gradients(*several), test::all_gradients(*one)), 1e-6) << text;
  const double evaluated = one->evaluate(batch)[0];
  EXPECT_NEAR(several->evaluate(batch)[0], evaluated, 1e-5 * std::abs(evaluated)) << text;
  EXPECT_LT(relative_l2(several->predict(batch), one->predict(batch)), 1e-5) << text;
}

GridCase mlp_case() { return test::grid_cases()[0]; }
GridCase pair_case() { return test::grid_cases()[1]; }

TEST(DividedStages, AnMlpHasTheGradientsOfOneDevice) {
  const Samples samples(13, mlp_case().sample, 10, 6);
  expect_as_on_one_device(mlp_case(), kTwoOfTwo, samples.view());
  expect_as_on_one_device(pair_case(), kTwiceTwoOfTwo, samples.view());
  if (test::kSanitized) return;
  expect_as_on_one_device(mlp_case(), {.data = 1, .stages = 3, .model = 2}, samples.view());
  expect_as_on_one_device(mlp_case(), {.data = 1, .stages = 2, .model = 3}, samples.view());
}

// Batch norm has the statistics of micro-batches, so resnet18 cannot be compared with one device.
TEST(DividedStages, EveryModelHasTheGradientsOfOneDevice) {
  for (const GridCase& tested : test::grid_cases()) {
    if (tested.text == "resnet18" || tested.text.starts_with("mlp")) continue;
    const Samples samples(11, tested.sample, tested.classes, 6);
    expect_as_on_one_device(tested, kTwoOfTwo, samples.view());
  }
  const test::TokenSamples tokens(7);
  expect_as_on_one_device(test::words_case(), kTwoOfTwo, tokens.view(0, 7));
}

// Layers that are not divided are data parallel: a micro-batch of a worker has the statistics that a replica
// has with the same samples.
TEST(DividedStages, BatchNormOfMicroBatchesEqualsThatOfMirroredReplicas) {
  const GridCase tested{"normalised", test::normalised(), {2, 8, 8}, 5, {"fc=columns"}};
  const StepOptions step{.batch = 16, .optimizer = SgdOptions{.momentum = 0.9}};
  const Samples samples(16, tested.sample, tested.classes);
  const auto mirrored = make_session(tested.model, step, {.replicas = 8, .mirrored = true});
  const auto several = divided_stages(tested, step, kTwoOfTwo);  // with 4 micro-batches
  for (int64_t s = 1; s <= 3; ++s) {
    mirrored->train(samples.view(), {.learning_rate = 0.01F, .step = s});
    several->train(samples.view(), {.learning_rate = 0.01F, .step = s});
  }
  EXPECT_LT(relative_l2(all_state(*several), all_state(*mirrored)), 1e-6);
}

// In the smaller batches some micro-batches have samples of only some workers of a stage, or of none.
TEST(DividedStages, BatchesOfAnySizeAreExactAndGiveTheSameBitsTwice) {
  const GridCase tested = pair_case();
  const StepOptions step{.batch = 9, .optimizer = AdamOptions{}, .clip_norm = 0.5};
  const Samples samples(9, tested.sample, tested.classes);
  const auto run = [&](Session& session) {
    int64_t number = 0;
    for (const int64_t size : {1, 9, 2, 3, 9, 7}) {
      session.train(samples.view(0, size), {.learning_rate = 0.01F, .step = ++number});
      EXPECT_EQ(session.predict(samples.view(0, size)).size(), static_cast<size_t>(10 * size));
    }
    return all_state(session);
  };
  const auto one = make_session(tested.model, step, {});
  const std::vector<float> expected = run(*one);
  for (const StageGridCase& grid : {kTwoOfTwo, kTwiceTwoOfTwo}) {
    const auto several = divided_stages(tested, step, grid);
    const std::vector<float> state = run(*several);
    EXPECT_LT(relative_l2(state, expected), 1e-5) << grid.text();
    EXPECT_EQ(run(*divided_stages(tested, step, grid)), state) << grid.text();
    for (const int64_t size : {1, 3}) {
      const double evaluated = one->evaluate(samples.view(0, size))[0];
      EXPECT_NEAR(several->evaluate(samples.view(0, size))[0], evaluated, 1e-4 * std::abs(evaluated));
    }
  }
}

TEST(DividedStages, ContinueWithTheSameBitsAndOnOtherGrids) {
  const GridCase tested = pair_case();
  const StepOptions step{.batch = 10, .optimizer = AdamOptions{}};
  const Samples samples(10, tested.sample, tested.classes);
  const auto steps = [&](Session& session, int64_t first, int64_t last) {
    for (int64_t s = first; s <= last; ++s)
      session.train(samples.view(), {.learning_rate = 0.01F, .step = s});
  };
  const auto whole = divided_stages(tested, step, kTwoOfTwo);
  steps(*whole, 1, 6);
  const auto first = divided_stages(tested, step, kTwoOfTwo);
  steps(*first, 1, 3);
  const auto second = divided_stages(tested, step, kTwoOfTwo);
  test::copy_state(*first, *second);
  steps(*second, 4, 6);
  EXPECT_EQ(all_state(*second), all_state(*whole));
  const auto one = make_session(tested.model, step, {});
  test::copy_state(*first, *one);
  EXPECT_EQ(all_state(*one), all_state(*first)) << "files are canonical: no bit changes on the way";
  steps(*one, 4, 5);
  const auto eight = divided_stages(tested, step, kTwiceTwoOfTwo);
  test::copy_state(*one, *eight);
  steps(*eight, 6, 6);
  EXPECT_LT(relative_l2(all_state(*eight), all_state(*whole)), 1e-5);
}

TEST(DividedStages, EachWorkerKeepsItsPiecesOfItsLayers) {
  const GridCase tested = pair_case();
  const auto several = divided_stages(tested, {.batch = 8, .optimizer = AdamOptions{}}, kTwiceTwoOfTwo);
  std::map<std::string, int64_t> kept;  // values, by parameter
  for (int64_t w = 0; w < several->program().mesh.workers(); ++w)
    for (const auto& [piece, copies] : kept_by(several->program(), w)) kept[piece.variable] += piece.floats();
  for (const ParameterInfo& parameter : several->program().parameters) {
    const bool divided = parameter.name.ends_with(".weight") || parameter.name == "fc1.bias";
    EXPECT_EQ(kept[parameter.name], parameter.shape.elements() * (divided ? 2 : 4)) << parameter.name;
  }
}

TEST(DividedStages, ANonFiniteLossUpdatesNothingAndIsTracedToItsLayer) {
  const GridCase tested = pair_case();
  const auto session = divided_stages(tested, {.batch = 8, .optimizer = SgdOptions{}}, kTwoOfTwo);
  session->write_state("fc3.weight", std::vector<float>(10 * 20, 1e38F));
  session->write_state("fc2.bias", std::vector<float>(20, 1e3F));
  const Samples samples(8, tested.sample, tested.classes);
  const StepInputs inputs{.learning_rate = 0.1F, .step = 1, .epoch = 0};
  const auto before = session->read_state("fc1.weight");
  EXPECT_FALSE(session->train(samples.view(), inputs).finite);
  EXPECT_EQ(session->read_state("fc1.weight"), before);
  EXPECT_EQ(session->find_non_finite(samples.view(), inputs), "layer 'fc3' (linear)");
  session->initialise();
  EXPECT_TRUE(session->train(samples.view(), inputs).finite);
}

TEST(DividedStages, AFailedWorkerReleasesTheOthersAndTheSessionContinues) {
  const auto session =
      divided_stages(test::words_case(), {.batch = 8, .optimizer = SgdOptions{}}, kTwiceTwoOfTwo);
  test::TokenSamples samples(8);
  const StepInputs inputs{.learning_rate = 0.1F, .step = 1, .epoch = 0};
  for (int round = 0; round < 2; ++round) {
    const int32_t token = std::exchange(samples.tokens()[7], 23);
    test::expect_error([&] { session->train(samples.view(0, 8), inputs); },
                       {"layer 'embedding': token 23 at position"});
    samples.tokens()[7] = token;
    EXPECT_TRUE(session->train(samples.view(0, 8), inputs).finite);
  }
}

TEST(DividedStages, RefuseWhatCannotBe) {
  const auto refused = [](const GridCase& tested, const StageGridCase& grid, int workers,
                          const std::vector<std::string_view>& parts) {
    test::expect_error(
        [&] {
          make_session(
              tested.model, {.batch = 8},
              {.replicas = workers, .name = "hybrid", .strategy = test::options_of(grid, tested.split)});
        },
        parts);
  };
  refused(pair_case(), kTwoOfTwo, 3, {"strategy 'hybrid' has 4 workers", "1 processes with 3 workers each"});
  // The two layers of a pair share an exchange, so there is no place between them. After a layer with rows
  // there are two: its bias is added to samples.
  refused(pair_case(), {.data = 1, .stages = 5, .model = 2}, 10,
          {"can be cut at 3 places", "at most 4 stages, not 5"});
  GridCase whole = mlp_case();
  whole.split = {"*=whole"};
  refused(whole, kTwoOfTwo, 4, {"no layer is worth dividing among 2 workers"});
}

}  // namespace
}  // namespace telar
