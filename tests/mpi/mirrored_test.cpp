#include "mpi/started.h"
#include "support/formula_fill.h"
#include "support/make_session.h"
#include "telar/data/assignment.h"
#include "telar/nn/zoo.h"

namespace telar::test {
namespace {

Model convnet() { return make_model("convnet", {}, {1, 28, 28}, 10); }

/// Parameters: the number of replicas in each process, and whether processes sum in shared memory or by MPI.
class MpiMirrored : public StartedTogether, public testing::WithParamInterface<std::tuple<int, bool>> {
 protected:
  void SetUp() override {
    StartedTogether::SetUp();
    if (started_together()) processes().share_memory(std::get<1>(GetParam()));
  }

  static std::unique_ptr<Session> together(const Model& model, const StepOptions& step,
                                           const std::string& batch_norm = "local") {
    return make_session(model, step,
                        {.replicas = std::get<0>(GetParam()),
                         .mirrored = true,
                         .strategy = {{"bucket_mb", 1.0 / 16}, {"batch_norm", batch_norm}},
                         .session = {.seed = 11, .processes = &processes()}});
  }

  /// This process's part of the samples.
  static BatchView mine(const Samples& samples, int64_t count) {
    const Part part{processes().rank(), processes().rank() + 1, processes().size()};
    return samples.view(part.first(count), part.last(count));
  }

  static void expect_equal_everywhere(const Session& session) {
    for (const StateName& name : session.state_names()) {
      const std::vector<float> values = session.read_state(name);
      std::vector<float> first = values;
      processes().broadcast(std::as_writable_bytes(std::span(first)));
      EXPECT_EQ(values, first) << name.text() << " on rank " << processes().rank();
    }
  }
};

TEST_P(MpiMirrored, GradientEqualsASingleDevice) {
  for (const int64_t batch :
       {32, 31, 3,
        1}) {  // includes batches that do not divide and batches smaller than the number of replicas
    const StepOptions step{.batch = batch, .optimizer = SgdOptions{}};
    auto single = make_session(convnet(), step, {});
    auto all = together(convnet(), step);
    const Samples samples(batch, {1, 28, 28}, 10);
    const StepInputs inputs{.learning_rate = 0.01F, .step = 1, .epoch = 0, .samples = batch};
    const auto a = single->train(samples.view(), inputs);
    const auto b = all->train(mine(samples, batch), inputs);
    EXPECT_NEAR(a.metrics[0], b.metrics[0], 1e-5 * std::abs(a.metrics[0]));
    EXPECT_LT(relative_l2(all_gradients(*all), all_gradients(*single)), 1e-6) << "batch " << batch;
    expect_equal_everywhere(*all);
  }
}

TEST_P(MpiMirrored, LossesFollowASingleDeviceAndParametersAreEqualEverywhere) {
  const StepOptions step{.batch = 30, .optimizer = SgdOptions{}};
  auto single = make_session(convnet(), step, {});
  auto all = together(convnet(), step);
  for (int64_t s = 1; s <= 100; ++s) {
    const Samples samples(30, {1, 28, 28}, 10, static_cast<uint64_t>(s));
    const StepInputs inputs{.learning_rate = 0.01F, .step = s, .epoch = 0, .samples = 30};
    const double a = single->train(samples.view(), inputs).metrics[0] / 30;
    const double b = all->train(mine(samples, 30), inputs).metrics[0] / 30;
    ASSERT_NEAR(a, b, 1e-5) << "step " << s;
  }
  expect_equal_everywhere(*all);
}

TEST_P(MpiMirrored, ClippingSeesTheNormOfTheWholeGradient) {
  const StepOptions step{.batch = 16, .optimizer = SgdOptions{}, .clip_norm = 0.01};
  auto single = make_session(convnet(), step, {});
  auto all = together(convnet(), step);
  const Samples samples(16, {1, 28, 28}, 10);
  const StepInputs inputs{.learning_rate = 1.0F, .step = 1, .epoch = 0, .samples = 16};
  single->train(samples.view(), inputs);
  all->train(mine(samples, 16), inputs);
  for (const StateName& name : single->state_names()) {
    EXPECT_LT(relative_l2(all->read_state(name), single->read_state(name)), 1e-6) << name.text();
  }
}

// The weights of the formula keep ReLU inputs away from zero, and the tolerance allows for CPUs without
// AVX-512 (see tests/strategy).
TEST_P(MpiMirrored, SynchronisedBatchNormEqualsASingleDevice) {
  const Model model =
      make_model("resnet18", {{"stem", std::string("3x3")}, {"width", int64_t{16}}}, {3, 8, 8}, 10);
  const StepOptions step{.batch = 7, .optimizer = SgdOptions{}};
  auto single = make_session(model, step, {});
  auto all = together(model, step, "synchronised");
  for (Session* session : {single.get(), all.get()}) {
    for (const ParameterInfo& parameter : parameters_of(model)) {
      std::vector<float> values(static_cast<size_t>(parameter.shape.elements()));
      formula_fill(parameter, 2, values);
      session->write_state(parameter.name, values);
    }
  }
  const Samples samples(7, {3, 8, 8}, 10);
  const StepInputs inputs{.learning_rate = 0.01F, .step = 1, .epoch = 0, .samples = 7};
  single->train(samples.view(), inputs);
  all->train(mine(samples, 7), inputs);
  EXPECT_LT(relative_l2(all_gradients(*all), all_gradients(*single)), 1e-5);
}

TEST_P(MpiMirrored, EvaluationSumsOverAllProcesses) {
  const StepOptions step{.batch = 32};
  auto single = make_session(convnet(), step, {});
  auto all = together(convnet(), step);
  const Samples samples(29, {1, 28, 28}, 10);
  const auto a = single->evaluate(samples.view());
  const auto b = all->evaluate(mine(samples, 29));
  EXPECT_NEAR(a[0], b[0], 1e-4);
  EXPECT_EQ(a[1], b[1]);
}

// Only the last sample, which belongs to the last rank, is too large.
// All weights are positive, because a ReLU would hide a NaN.
TEST_P(MpiMirrored, EveryProcessReportsTheLayerOfANonFiniteLoss) {
  auto all = together(convnet(), {.batch = 16, .optimizer = SgdOptions{}});
  for (const auto& [name, weight] :
       {std::pair("conv1.weight", 1.0F), {"conv2.weight", 1e10F}, {"fc1.weight", 1.0F}}) {
    all->write_state(name,
                     std::vector<float>(static_cast<size_t>(all->state_shape(name).elements()), weight));
  }
  std::vector<float> x(16 * 784, 0.0F);
  std::fill(x.end() - 784, x.end(), 1e30F);
  const std::vector<int32_t> label(16, 3);
  const std::vector<int64_t> id(16, 0);
  const Part part{processes().rank(), processes().rank() + 1, processes().size()};
  const int64_t first = part.first(16);
  const BatchView mine{part.last(16) - first,
                       {{"x", x.data() + first * 784}, {"label", label.data() + first}},
                       id.data() + first};
  const StepInputs inputs{.learning_rate = 0.01F, .step = 1, .epoch = 0, .samples = 16};
  EXPECT_FALSE(all->train(mine, inputs).finite);
  EXPECT_EQ(all->find_non_finite(mine, inputs), "layer 'conv2' (conv2d)");
}

INSTANTIATE_TEST_SUITE_P(Replicas, MpiMirrored, testing::Combine(testing::Values(1, 2), testing::Bool()));

}  // namespace
}  // namespace telar::test
