#include "support/sharded.h"

#include <cmath>

#include "mpi/started.h"
#include "telar/data/assignment.h"

namespace telar::test {
namespace {

/// Parameters: the stage, the number of replicas in each process, and whether processes sum in shared memory
/// or by MPI.
class MpiSharded : public StartedTogether,
                   public testing::WithParamInterface<std::tuple<int64_t, int, bool>> {
 protected:
  void SetUp() override {
    StartedTogether::SetUp();
    if (started_together()) processes().share_memory(std::get<2>(GetParam()));
  }

  static std::unique_ptr<Session> together(const Model& model, const StepOptions& step) {
    const auto [stage, replicas, shares] = GetParam();
    return Sharding{stage, replicas, &processes()}.session(model, step);
  }

  /// This process's part of a batch.
  static BatchView mine(const Samples& samples, int64_t count) {
    const Part part{processes().rank(), processes().rank() + 1, processes().size()};
    return samples.view(part.first(count), part.last(count));
  }
};

TEST_P(MpiSharded, GradientsAndEvaluationAreThoseOfOneDevice) {
  for (const GridCase& tested : grid_cases()) {
    if (tested.text == "alexnet" || tested.text == "mlp_in_pairs") continue;
    // It takes seconds to read so much state from all processes.
    if (tested.text == "resnet18" && GetParam() != ParamType(3, 1, true)) continue;
    const StepOptions step{.batch = 13, .optimizer = SgdOptions{}};
    const auto one = make_session(tested.model, step, {});
    const auto all = together(tested.model, step);
    fill_clear_of_zero(*one);
    fill_clear_of_zero(*all);
    const Samples samples(13, tested.sample, tested.classes, 6);
    const StepInputs inputs{.learning_rate = 0, .step = 1, .epoch = 2, .samples = 13};
    const auto expected = one->train(samples.view(), inputs);
    const auto result = all->train(mine(samples, 13), inputs);
    EXPECT_NEAR(result.metrics[0], expected.metrics[0], 1e-5 * std::abs(expected.metrics[0]));
    EXPECT_LT(relative_l2(all_gradients(*all), all_gradients(*one)), tested.tolerance) << tested.text;
    const double evaluated = one->evaluate(samples.view())[0];
    EXPECT_NEAR(all->evaluate(mine(samples, 13))[0], evaluated, 1e-5 * std::abs(evaluated));
  }
}

TEST_P(MpiSharded, StepsOfAnySizeFollowOneDeviceAndContinueInAnother) {
  const GridCase tested = grid_cases()[0];
  const Samples samples(9, tested.sample, tested.classes);
  const StepOptions step{.batch = 9, .optimizer = AdamOptions{}, .clip_norm = 0.7};
  const auto one = make_session(tested.model, step, {});
  auto all = together(tested.model, step);
  int64_t number = 0;
  for (const int64_t size : {9, 4, 1, 2, 9, 7}) {
    const StepInputs inputs{.learning_rate = 0.001F, .step = ++number, .samples = size};
    one->train(samples.view(0, size), inputs);
    all->train(mine(samples, size), inputs);
    if (number != 3) continue;
    const auto resumed = together(tested.model, step);
    copy_state(*all, *resumed);
    const std::vector<float> before = all_state(*all);
    EXPECT_EQ(all_state(*resumed), before);
    all = together(tested.model, step);
    copy_state(*resumed, *all);
  }
  const std::vector<float> state = all_state(*all);
  EXPECT_LT(relative_l2(state, all_state(*one)), 1e-5);
  std::vector<float> first = state;
  processes().broadcast(std::as_writable_bytes(std::span(first)));
  EXPECT_EQ(state, first) << "on rank " << processes().rank();
}

// The gradient of one row of fc1.weight is infinite, so only the replicas that update it see that.
TEST_P(MpiSharded, AllProcessesStopAtAGradientThatIsNotFinite) {
  const GridCase tested = grid_cases()[0];
  const auto all = together(tested.model, {.batch = 8, .optimizer = SgdOptions{}});
  for (const auto& [name, at, value] : {std::tuple<std::string, size_t, float>{"fc1.weight", 0, 0},
                                        {"fc1.bias", 32, 1e-30F},
                                        {"fc2.weight", 32, 1e30F},
                                        {"fc2.bias", 0, 0},
                                        {"fc3.weight", 0, 0.1F},
                                        {"fc3.bias", 0, 0}}) {
    std::vector<float> values(static_cast<size_t>(all->state_shape(name).elements()));
    values[at] = value;
    all->write_state(name, values);
  }
  const std::vector<float> x(8 * 12, 1e12F);
  const std::vector<int32_t> labels(8, 1);
  const std::vector<int64_t> ids{0, 1, 2, 3, 4, 5, 6, 7};
  const Part part{processes().rank(), processes().rank() + 1, processes().size()};
  const int64_t first = part.first(8);
  const BatchView batch{part.last(8) - first,
                        {{"x", x.data() + 12 * first}, {"label", labels.data() + first}},
                        ids.data() + first};
  const StepResult result = all->train(batch, {.learning_rate = 0.1F, .step = 1, .samples = 8});
  EXPECT_TRUE(std::isfinite(result.metrics[0]));
  EXPECT_FALSE(result.finite) << "on rank " << processes().rank();
}

TEST_P(MpiSharded, AProcessKeepsItsPartOfTheState) {
  const auto [stage, replicas, shares] = GetParam();
  const Model model = make_model("mlp", {{"hidden", std::vector<int64_t>{256, 256}}}, {256}, 10);
  const StepOptions step{.batch = 8, .optimizer = AdamOptions{}};
  const SessionMemory one = make_session(model, step, {})->memory();
  const SessionMemory mine = together(model, step)->memory();
  const auto part = [&](size_t bytes) { return 1.05 * static_cast<double>(bytes) / processes().size(); };
  EXPECT_LT(static_cast<double>(mine.optimizer_bytes), part(one.optimizer_bytes));
  if (stage == 1) return;
  EXPECT_LT(static_cast<double>(mine.gradient_bytes), part(one.gradient_bytes));
  EXPECT_LT(static_cast<double>(mine.parameter_bytes), part(one.parameter_bytes));
}

std::string name_of_sharded(const testing::TestParamInfo<MpiSharded::ParamType>& info) {
  const auto [stage, replicas, shares] = info.param;
  return "Stage" + std::to_string(stage) + "_" + std::to_string(replicas) + (shares ? "_shared" : "_mpi");
}

INSTANTIATE_TEST_SUITE_P(All, MpiSharded,
                         testing::Values(std::tuple(1, 1, true), std::tuple(1, 2, false),
                                         std::tuple(2, 2, true), std::tuple(3, 1, true),
                                         std::tuple(3, 2, false)),
                         name_of_sharded);

}  // namespace
}  // namespace telar::test
