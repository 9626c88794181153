#include <limits>

#include "mpi/started.h"
#include "support/grids.h"
#include "support/sentences.h"
#include "support/staged.h"
#include "telar/runtime/operation_costs.h"

namespace telar::test {
namespace {

class MpiPipeline : public StartedTogether {
 protected:
  static int count() { return processes().size(); }

  static SessionSetup setup(int stages, int64_t micro_batches = 4) {
    return {.replicas = stages / count(),
            .name = "pipeline",
            .strategy = {{"stages", int64_t{stages}}, {"micro_batches", micro_batches}},
            .session = {.seed = 11, .processes = &processes()}};
  }
  static std::unique_ptr<Session> together(const Model& model, const StepOptions& step, int stages) {
    return make_session(model, step, setup(stages));
  }
  static std::unique_ptr<Session> alone(const Model& model, const StepOptions& step, int stages) {
    return make_session(model, step,
                        {.replicas = stages, .pipeline = true, .strategy = {{"micro_batches", int64_t{4}}}});
  }
  /// One stage in each process and, for two processes, two.
  static std::vector<int> stage_counts() {
    return count() == 2 ? std::vector<int>{2, 4} : std::vector<int>{count()};
  }
};

TEST_F(MpiPipeline, GradientsEvaluationAndPredictionAreThoseOfOneDevice) {
  const StepOptions step{.batch = 13, .optimizer = SgdOptions{}};
  for (const StagedCase& tested : staged_cases()) {
    if (tested.text == "normalised") continue;  // its statistics are those of micro-batches
    for (const int stages : stage_counts()) {
      const auto one = make_session(tested.model, step, {});
      const auto all = together(tested.model, step, stages);
      fill_clear_of_zero(*one);
      fill_clear_of_zero(*all);
      const Samples samples(13, tested.model.sample, tested.classes, 6);
      const StepInputs inputs{.learning_rate = 0, .step = 1, .epoch = 2};
      const auto expected = one->train(samples.view(), inputs);
      const auto result = all->train(samples.view(), inputs);
      const std::string text = tested.text + " in " + std::to_string(stages) + " stages";
      EXPECT_TRUE(result.finite) << text;
      for (size_t m = 0; m < expected.metrics.size(); ++m)
        EXPECT_NEAR(result.metrics[m], expected.metrics[m], 1e-5 * std::abs(expected.metrics[m])) << text;
      EXPECT_LT(relative_l2(all_gradients(*all), all_gradients(*one)), 1e-6) << text;
      const double evaluated = one->evaluate(samples.view())[0];
      EXPECT_NEAR(all->evaluate(samples.view())[0], evaluated, 1e-5 * std::abs(evaluated)) << text;
      EXPECT_LT(relative_l2(all->predict(samples.view()), one->predict(samples.view())), 1e-5) << text;
    }
  }
}

// The sums have the same order, so not a bit differs; with clipping, running statistics, batches that do not
// divide, and batches with fewer samples than micro-batches.
TEST_F(MpiPipeline, EqualsThePipelineOfOneProcessInEveryBit) {
  const StepOptions step{.batch = 9, .optimizer = AdamOptions{}, .clip_norm = 0.7};
  for (const StagedCase& tested : staged_cases()) {
    for (const int stages : stage_counts()) {
      const auto reference = alone(tested.model, step, stages);
      const auto all = together(tested.model, step, stages);
      const Samples samples(9, tested.model.sample, tested.classes);
      int64_t number = 0;
      for (const int64_t size : {9, 4, 1, 9, 7}) {
        const StepInputs inputs{.learning_rate = 0.001F, .step = ++number, .epoch = 1};
        const auto expected = reference->train(samples.view(0, size), inputs);
        EXPECT_EQ(all->train(samples.view(0, size), inputs).metrics, expected.metrics) << tested.text;
      }
      EXPECT_EQ(all_state(*all), all_state(*reference)) << tested.text << " in " << stages << " stages";
      const double evaluated = reference->evaluate(samples.view())[0];
      EXPECT_NEAR(all->evaluate(samples.view(0, 9))[0], evaluated, 1e-5 * std::abs(evaluated)) << tested.text;
    }
  }
}

TEST_F(MpiPipeline, ContinuesWithTheSameBitsAndOnOneDevice) {
  const StagedCase tested = staged_cases()[0];
  const StepOptions step{.batch = 9, .optimizer = SgdOptions{.momentum = 0.9}};
  const Samples samples(9, tested.model.sample, tested.classes);
  const auto steps = [&](Session& session, int64_t first, int64_t last) {
    for (int64_t s = first; s <= last; ++s)
      session.train(samples.view(), {.learning_rate = 0.05F, .step = s});
  };
  const auto copy = [](const Session& from, Session& to) {
    for (const StateName& name : from.state_names()) to.write_state(name, from.read_state(name));
  };
  const auto whole = together(tested.model, step, count());
  steps(*whole, 1, 6);
  const auto first = together(tested.model, step, count());
  steps(*first, 1, 3);
  EXPECT_TRUE(first->state_is_divided());
  const auto second = together(tested.model, step, count());
  copy(*first, *second);
  steps(*second, 4, 6);
  EXPECT_EQ(all_state(*second), all_state(*whole));
  const auto one = make_session(tested.model, step, {});
  copy(*first, *one);
  EXPECT_EQ(all_state(*one), all_state(*first)) << "files are canonical: no bit changes on the way";
  steps(*one, 4, 6);
  EXPECT_LT(relative_l2(all_state(*one), all_state(*whole)), 1e-6);
  const auto back = together(tested.model, step, count());
  copy(*one, *back);
  EXPECT_EQ(all_state(*back), all_state(*one));
}

TEST_F(MpiPipeline, KeepsOnlyItsLayers) {
  const StagedCase tested = staged_cases()[0];
  const StepOptions step{.batch = 8, .optimizer = AdamOptions{}};
  const auto one = make_session(tested.model, step, {});
  const auto all = together(tested.model, step, count());
  double sum = 0;
  for (const std::string& bytes : processes().gather(std::to_string(all->memory().parameter_bytes)))
    sum += std::stod(bytes);
  EXPECT_LE(sum, 1.05 * static_cast<double>(one->memory().parameter_bytes));
}

TEST_F(MpiPipeline, ANonFiniteLossUpdatesNothingAndIsTracedToItsLayer) {
  const StagedCase tested = staged_cases()[0];
  const auto session = together(tested.model, {.batch = 8}, count());
  session->write_state("fc3.weight", std::vector<float>(17 * 20, 1e38F));
  session->write_state("fc1.bias", std::vector<float>(33, 1e3F));
  const Samples samples(8, tested.model.sample, tested.classes);
  const StepInputs inputs{.learning_rate = 0.1F, .step = 1, .epoch = 0};
  const auto before = session->read_state("fc1.weight");
  EXPECT_FALSE(session->train(samples.view(), inputs).finite);
  EXPECT_EQ(session->read_state("fc1.weight"), before);
  EXPECT_EQ(session->find_non_finite(samples.view(), inputs), "layer 'fc3' (linear)");
  session->initialise();
  EXPECT_TRUE(session->train(samples.view(), inputs).finite);
}

// The loss is finite: only the first stage sees it, in a gradient.
TEST_F(MpiPipeline, AllProcessesSeeAGradientThatIsNotFinite) {
  const StagedCase tested = staged_cases()[0];
  const auto session = together(tested.model, {.batch = 6, .optimizer = SgdOptions{}}, count());
  std::vector<float> x(6 * 12, 1.0F);
  const std::vector<int32_t> labels{1, 1, 1,
                                    1, 1, 2};  // one of the two is not the largest, and has a gradient
  const std::vector<int64_t> ids{0, 1, 2, 3, 4, 5};
  x[4 * 12] = x[5 * 12] = 1e38F;
  const BatchView batch{6, {{"x", x.data()}, {"label", labels.data()}}, ids.data()};
  let_gradient_overflow(*session);
  EXPECT_TRUE(std::isfinite(session->evaluate(batch)[0]));
  EXPECT_FALSE(session->train(batch, {.learning_rate = 0.1F, .step = 1}).finite);
}

/// Two pipelines over all processes, of two stages or as many as there are processes.
std::vector<StageGridCase> stage_grids_over(int processes) {
  if (processes == 3) return {{3, 2}};
  if (processes == 2) return {{2, 2}, {2, 4}};
  return {{2, 2}};
}

TEST_F(MpiPipeline, PipelinesThatAreDataParallelEqualThoseOfOneProcess) {
  const StepOptions step{.batch = 11, .optimizer = SgdOptions{.momentum = 0.9}, .clip_norm = 0.7};
  for (const StageGridCase& grid : stage_grids_over(count())) {
    for (const StagedCase& tested : staged_cases()) {
      SessionSetup inside{.replicas = grid.workers(), .name = "hybrid", .strategy = options_of(grid)};
      SessionSetup over = inside;
      over.replicas /= count();
      over.session = {.seed = 11, .processes = &processes()};
      const auto reference = make_session(tested.model, step, inside);
      const auto all = make_session(tested.model, step, over);
      const BatchShare share = shares_of(all->program(), processes().rank());
      const Samples samples(11, tested.model.sample, tested.classes);
      const auto mine = [&](int64_t size) {
        return samples.view(size * share.begin / share.of, size * share.end / share.of);
      };
      int64_t number = 0;
      for (const int64_t size : {11, 1, 8}) {
        // Processes divide batches by rounding down, workers of a process otherwise.
        if (tested.text == "normalised" && size % grid.data != 0) continue;
        const StepInputs inputs{.learning_rate = 0.01F, .step = ++number, .epoch = 1, .samples = size};
        const auto expected = reference->train(samples.view(0, size), inputs);
        EXPECT_NEAR(all->train(mine(size), inputs).metrics[0], expected.metrics[0],
                    1e-5 * expected.metrics[0]);
      }
      EXPECT_LT(relative_l2(all_state(*all), all_state(*reference)), 1e-6)
          << tested.text << ", " << grid.text();
      const double evaluated = reference->evaluate(samples.view())[0];
      EXPECT_NEAR(all->evaluate(mine(11))[0], evaluated, 1e-5 * std::abs(evaluated));
    }
  }
}

/// Grids of stages that divide their layers. A process has a part of a stage, one or several stages, or whole
/// pipelines.
std::vector<StageGridCase> divided_grids_over(int processes) {
  if (processes == 3) return {{.data = 3, .stages = 2, .model = 2}, {.data = 1, .stages = 3, .model = 2}};
  return {{.data = 1, .stages = 2, .model = 2}, {.data = 2, .stages = 2, .model = 2}};
}

TEST_F(MpiPipeline, StagesThatDivideTheirLayersAreThoseOfOneDevice) {
  for (const StageGridCase& grid : divided_grids_over(count())) {
    for (const GridCase& tested : grid_cases()) {
      const bool cut = tested.text == "mlp" || (grid.stages == 2 && tested.text != "resnet18");
      if (!cut || tested.text == "alexnet") continue;  // statistics of micro-batches; too much state
      const StepOptions step{.batch = 11, .optimizer = SgdOptions{.momentum = 0.9}, .clip_norm = 0.7};
      const auto one = make_session(tested.model, step, {});
      const auto all = make_session(tested.model, step,
                                    {.replicas = grid.workers() / count(),
                                     .name = "hybrid",
                                     .strategy = options_of(grid, tested.split),
                                     .session = {.seed = 11, .processes = &processes()}});
      fill_clear_of_zero(*one);
      fill_clear_of_zero(*all);
      const BatchShare share = shares_of(all->program(), processes().rank());
      const Samples samples(11, tested.sample, tested.classes, 6);
      const auto mine = [&](int64_t size) {
        BatchView view = samples.view(size * share.begin / share.of, size * share.end / share.of);
        view.all = size;
        return view;
      };
      const std::string text = tested.text + ", " + grid.text();
      int64_t number = 0;
      for (const int64_t size : {11, 1, 3, 8}) {
        const StepInputs inputs{.learning_rate = 0.01F, .step = ++number, .epoch = 1, .samples = size};
        const auto expected = one->train(samples.view(0, size), inputs);
        EXPECT_NEAR(all->train(mine(size), inputs).metrics[0], expected.metrics[0],
                    1e-5 * expected.metrics[0])
            << text << " " << size;
        EXPECT_LT(relative_l2(all_gradients(*all), all_gradients(*one)), size == 11 ? 1e-6 : 1e-4)
            << text << " " << size;
      }
      const std::vector<float> state = all_state(*all);
      EXPECT_LT(relative_l2(state, all_state(*one)), 1e-5) << text;
      std::vector<float> first = state;
      processes().broadcast(std::as_writable_bytes(std::span(first)));
      EXPECT_EQ(state, first) << text << " on rank " << processes().rank();
      const double evaluated = one->evaluate(samples.view())[0];
      EXPECT_NEAR(all->evaluate(mine(11))[0], evaluated, 1e-5 * std::abs(evaluated)) << text;
    }
  }
}

TEST_F(MpiPipeline, MeasuresTheSameCutsInAllProcesses) {
  const StagedCase tested = staged_cases()[0];
  const TrainingStep step = make_training_step(tested.model, {.batch = 16});
  Cluster cluster{{{"cpu", 1, {}}}, count(), processes().rank()};
  const auto strategy = make_strategy("pipeline", {{"stages", int64_t{count()}}});
  const Program program = measured_program(strategy, step, cluster, &processes());
  std::string kept;
  for (const Holding& holding : program.worker(processes().rank()).holdings) kept += holding.variable + "\n";
  std::string all;
  for (const std::string& of_process : processes().gather(kept)) all += of_process;
  for (const ParameterInfo& parameter : step.parameters) {
    const size_t found = all.find(parameter.name + "\n");
    EXPECT_NE(found, std::string::npos) << parameter.name;
    EXPECT_EQ(found, all.rfind(parameter.name + "\n")) << parameter.name << " is kept twice";
  }
}

TEST_F(MpiPipeline, RefusesMoreStagesThanLayers) {
  const Model model = make_model("mlp", {{"hidden", std::vector<int64_t>{}}}, {12}, 10);
  expect_error([&] { together(model, {.batch = 8}, count()); },
               {"can be cut at 0 places", "strategy.stages"});
}

}  // namespace
}  // namespace telar::test
