#include "telar/runtime/session.h"
#include "telar/device/cpu/processor_support.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "runtime/models.h"
#include "support/make_session.h"
#include "telar/core/error.h"
#include "telar/nn/zoo.h"

namespace telar {
namespace {

using test::convnet;
using test::make_session;
using test::relative_l2;
using test::Samples;

Model small_mlp() { return make_model("mlp", {{"hidden", std::vector<int64_t>{32, 16}}}, {1, 8, 8}, 10); }

TEST(Session, StateIsUnchangedByTheDevicesLayouts) {
  auto session = make_session(convnet(), {.batch = 8, .optimizer = AdamOptions{}}, {});
  for (const StateName& name : session->state_names()) {
    std::vector<float> values(static_cast<size_t>(session->state_shape(name).elements()));
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 1000) + 0.5F;
    session->write_state(name, values);
    EXPECT_EQ(session->read_state(name), values) << name.text();
  }
}

TEST(Session, StateMovedToAnotherSessionContinuesWithTheSameBits) {
  const StepOptions options{.batch = 16, .optimizer = AdamOptions{}};
  auto whole = make_session(convnet(), options, {.replicas = 2, .mirrored = true});
  auto first = make_session(convnet(), options, {.replicas = 2, .mirrored = true});
  const auto step = [](Session& session, int64_t s) {
    const Samples samples(16, {1, 28, 28}, 10, static_cast<uint64_t>(s));
    session.train(samples.view(), {.learning_rate = 0.01F, .step = s, .epoch = 0});
  };
  for (int64_t s = 1; s <= 6; ++s) step(*whole, s);
  for (int64_t s = 1; s <= 3; ++s) step(*first, s);
  auto second = make_session(convnet(), options, {.replicas = 2, .mirrored = true, .session = {.seed = 99}});
  for (const StateName& name : first->state_names()) second->write_state(name, first->read_state(name));
  first.reset();
  // The seed also determines dropout; a resumed job has the original seed.
  auto resumed = make_session(convnet(), options, {.replicas = 2, .mirrored = true});
  for (const StateName& name : second->state_names()) resumed->write_state(name, second->read_state(name));
  for (int64_t s = 4; s <= 6; ++s) step(*resumed, s);
  for (const StateName& name : whole->state_names())
    EXPECT_EQ(resumed->read_state(name), whole->read_state(name)) << name.text();
}

TEST(Session, ANonFiniteLossUpdatesNothingAndIsTracedToItsLayer) {
  for (const bool mirrored : {false, true}) {
    auto session =
        make_session(small_mlp(), {.batch = 8}, {.replicas = mirrored ? 2 : 1, .mirrored = mirrored});
    session->write_state("fc2.weight", std::vector<float>(16 * 32, 1e38F));
    session->write_state("fc1.bias", std::vector<float>(32, 1e3F));
    const Samples samples(8, {1, 8, 8}, 10);
    const StepInputs inputs{.learning_rate = 0.1F, .step = 1, .epoch = 0};
    const auto before = session->read_state("fc1.weight");
    EXPECT_FALSE(session->train(samples.view(), inputs).finite);
    EXPECT_EQ(session->read_state("fc1.weight"), before);
    EXPECT_EQ(session->find_non_finite(samples.view(), inputs), "layer 'fc2' (linear)");
    // The session can continue with finite parameters.
    session->initialise();
    EXPECT_TRUE(session->train(samples.view(), inputs).finite);
  }
}

TEST(Session, ANanThatAReluHidesIsFoundInTheGradient) {
  for (const bool mirrored : {false, true}) {
    auto session =
        make_session(small_mlp(), {.batch = 8}, {.replicas = mirrored ? 2 : 1, .mirrored = mirrored});
    std::vector<float> x(8 * 64, 0.5F);
    x[5 * 64] = std::numeric_limits<float>::quiet_NaN();
    const std::vector<int32_t> labels(8, 1);
    const std::vector<int64_t> ids{0, 1, 2, 3, 4, 5, 6, 7};
    const BatchView batch{8, {{"x", x.data()}, {"label", labels.data()}}, ids.data()};
    const StepInputs inputs{.learning_rate = 0.1F, .step = 1, .epoch = 0};
    EXPECT_FALSE(session->train(batch, inputs).finite);
    EXPECT_NE(session->find_non_finite(batch, inputs).find("fc1.weight"), std::string::npos)
        << session->find_non_finite(batch, inputs);
  }
}

TEST(Session, RefusesAStateOfAnotherSize) {
  auto session = make_session(small_mlp(), {.batch = 8}, {});
  EXPECT_THROW(session->write_state("fc1.weight", std::vector<float>(3)), Error);
  EXPECT_THROW(session->read_state("fc9.weight"), Error);
}

TEST(Session, MeasuredSharesGiveTheSameGradientAsOneDevice) {
  const StepOptions options{.batch = 32, .optimizer = SgdOptions{}};
  auto measured =
      make_session(convnet(), options,
                   {.replicas = 2, .mirrored = true, .session = {.seed = 11, .measured_shares = true}});
  auto single = make_session(convnet(), options, {});
  const Samples samples(32, {1, 28, 28}, 10);
  for (int64_t s = 1; s <= 25; ++s) {
    const StepInputs inputs{.learning_rate = 0.01F, .step = s, .epoch = 0};
    const double a = single->train(samples.view(), inputs).metrics[0];
    EXPECT_NEAR(measured->train(samples.view(), inputs).metrics[0] / 32, a / 32, 1e-5);
  }
}

TEST(Session, Bf16GradientsAreCloseToF32Gradients) {
  if (const std::string missing = cpu::bf16_missing(); !missing.empty()) GTEST_SKIP() << missing;
  auto f32 = make_session(convnet(), {.batch = 32, .optimizer = SgdOptions{}}, {});
  auto bf16 =
      make_session(convnet(), {.batch = 32, .optimizer = SgdOptions{}, .precision = Precision::bf16}, {});
  const Samples samples(32, {1, 28, 28}, 10);
  const StepInputs inputs{.learning_rate = 0.01F, .step = 1, .epoch = 0};
  f32->train(samples.view(), inputs);
  bf16->train(samples.view(), inputs);
  for (const char* name : {"conv1.weight", "conv2.weight", "fc1.weight"}) {
    // Single operations are within 2e-2 (tests/ops). The samples are noise, so the gradient is mostly
    // cancellation, and the errors of five layers add up.
    EXPECT_LT(relative_l2(bf16->read_gradient(name), f32->read_gradient(name)), 0.15) << name;
  }
}

}  // namespace
}  // namespace telar
