#include "mpi/started.h"
#include "support/grids.h"
#include "support/sentences.h"
#include "telar/data/assignment.h"

namespace telar::test {
namespace {

/// The grids that fit the number of processes, with one or two workers in each.
std::vector<Grid> grids_over(int processes) {
  std::vector<Grid> grids{tensor_grid(processes), hybrid_grid(processes, 2)};
  if (processes % 2 == 0) grids.push_back(hybrid_grid(2, processes));
  return grids;
}

class MpiGrid : public StartedTogether {
 protected:
  static std::unique_ptr<Session> together(const GridCase& tested, const Grid& grid,
                                           const StepOptions& step) {
    Attributes options = grid.options;
    options.set("split", tested.split);
    options.set("batch_norm", "synchronised");
    return make_session(tested.model, step,
                        {.replicas = grid.workers / processes().size(),
                         .name = grid.strategy,
                         .strategy = options,
                         .session = {.seed = 11, .processes = &processes()}});
  }

  /// This process's part of a batch.
  static BatchView mine(const auto& samples, int64_t count) {
    const Part part{processes().rank(), processes().rank() + 1, processes().size()};
    BatchView view = samples.view(part.first(count), part.last(count));
    view.all = count;
    return view;
  }
};

TEST_F(MpiGrid, GradientsAndEvaluationAreThoseOfOneDevice) {
  for (const GridCase& tested : grid_cases()) {
    for (const Grid& grid : grids_over(processes().size())) {
      if (tested.text == "alexnet") continue;  // too much state to exchange for a comparison
      const StepOptions step{.batch = 13, .optimizer = SgdOptions{}};
      const auto one = make_session(tested.model, step, {});
      const auto all = together(tested, grid, step);
      fill_clear_of_zero(*one);
      fill_clear_of_zero(*all);
      const Samples samples(13, tested.sample, tested.classes, 6);
      const StepInputs inputs{.learning_rate = 0, .step = 1, .epoch = 2, .samples = 13};
      const auto expected = one->train(samples.view(), inputs);
      const auto result = all->train(mine(samples, 13), inputs);
      EXPECT_NEAR(result.metrics[0], expected.metrics[0], 1e-5 * std::abs(expected.metrics[0]));
      EXPECT_LT(relative_l2(all_gradients(*all), all_gradients(*one)), tested.tolerance)
          << tested.text << " " << grid.text;
      const double evaluated = one->evaluate(samples.view())[0];
      EXPECT_NEAR(all->evaluate(mine(samples, 13))[0], evaluated, 1e-5 * std::abs(evaluated));
    }
  }
}

TEST_F(MpiGrid, StepsOfAnySizeFollowOneDevice) {
  const GridCase tested = grid_cases()[1];
  const Samples samples(9, tested.sample, tested.classes);
  for (const Grid& grid : grids_over(processes().size())) {
    const StepOptions step{.batch = 9, .optimizer = AdamOptions{}, .clip_norm = 0.7};
    const auto one = make_session(tested.model, step, {});
    const auto all = together(tested, grid, step);
    int64_t number = 0;
    for (const int64_t size : {9, 4, 1, 2, 9, 7}) {
      const StepInputs inputs{.learning_rate = 0.001F, .step = ++number, .samples = size};
      one->train(samples.view(0, size), inputs);
      all->train(mine(samples, size), inputs);
    }
    const std::vector<float> state = all_state(*all);
    EXPECT_LT(relative_l2(state, all_state(*one)), 1e-5) << grid.text;
    std::vector<float> first = state;
    processes().broadcast(std::as_writable_bytes(std::span(first)));
    EXPECT_EQ(state, first) << grid.text << " on rank " << processes().rank();
  }
}

TEST_F(MpiGrid, AnEmbeddingDividedByRowsIsThatOfOneDevice) {
  const GridCase tested = words_case();
  const TokenSamples samples(7);
  const StepOptions step{.batch = 7, .optimizer = AdamOptions{}};
  for (const Grid& grid : grids_over(processes().size())) {
    const auto one = make_session(tested.model, step, {});
    const auto all = together(tested, grid, step);
    int64_t number = 0;
    for (const int64_t size : {7, 1, 6}) {
      const StepInputs inputs{.learning_rate = 0.001F, .step = ++number, .samples = size};
      one->train(samples.view(0, size), inputs);
      all->train(mine(samples, size), inputs);
      EXPECT_LT(relative_l2(all_gradients(*all), all_gradients(*one)), 1e-6) << grid.text << " " << size;
    }
    EXPECT_LT(relative_l2(all_state(*all), all_state(*one)), 1e-5) << grid.text;
  }
}

TEST_F(MpiGrid, ProcessesThatCutThroughGroupsAreRefused) {
  if (processes().size() != 3) GTEST_SKIP() << "for 3 processes";
  const GridCase tested = grid_cases()[1];
  expect_error([&] { together(tested, hybrid_grid(2, 3), {.batch = 8, .optimizer = SgdOptions{}}); },
               {"neither a part nor a multiple of a group of 3"});
}

}  // namespace
}  // namespace telar::test
