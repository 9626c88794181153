#include "telar/device/cuda/loops/loss.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "cuda/run_loop.h"
#include "ops/run_graph.h"

namespace telar::test {

namespace {

constexpr cuda::Classes kExtents{5, 7};
constexpr int64_t kValues = kExtents.rows * kExtents.classes;
constexpr int64_t kTopK = 3;

struct Totals {
  float loss, error, correct;
};

/// Sums over normally distributed values, computed `times` times.
Totals totals(int times, bool adding) {
  const std::vector<float> logits = numbers(kValues, 1);
  const std::vector<float> targets = numbers(kValues, 2);
  const std::vector<int32_t> labels{0, 6, 3, 2, 1};
  std::vector<float> log_probabilities(kValues);
  std::vector<float> of_rows(kExtents.rows);
  const cuda::Pieces pieces = cuda::pieces_of(1, kValues, false);
  Totals totals{0, 0, 0};
  for (int time = 0; time < times; ++time) {
    run_loop([&](cudaStream_t stream) {
      return cuda::cross_entropy(kExtents, 0, logits.data(), labels.data(), {&totals.loss, adding},
                                 log_probabilities.data(), of_rows.data(), stream);
    });
    run_loop([&](cudaStream_t stream) {
      return cuda::mean_squared_error(pieces, kExtents.classes, logits.data(), targets.data(),
                                      {&totals.error, adding}, nullptr, stream);
    });
    run_loop([&](cudaStream_t stream) {
      return cuda::top_k_correct(kExtents, kTopK, logits.data(), labels.data(), {&totals.correct, adding},
                                 of_rows.data(), stream);
    });
  }
  return totals;
}

}  // namespace

TEST(LossLoops, AddToWhatIsThereOrReplaceIt) {
  const Totals once = totals(1, false);
  EXPECT_GT(once.loss, 0);
  EXPECT_GT(once.error, 0);
  EXPECT_GT(once.correct, 0);
  const Totals replaced = totals(2, false);
  const Totals added = totals(2, true);
  EXPECT_EQ(replaced.loss, once.loss);
  EXPECT_EQ(replaced.error, once.error);
  EXPECT_EQ(replaced.correct, once.correct);
  EXPECT_EQ(added.loss, 2 * once.loss);
  EXPECT_EQ(added.error, 2 * once.error);
  EXPECT_EQ(added.correct, 2 * once.correct);
}

TEST(LossLoops, TakeAGradientThatIsKnownOrOneOfTheGpu) {
  const std::vector<float> given = numbers(kValues, 1);
  const std::vector<float> targets = numbers(kValues, 2);
  const std::vector<int32_t> labels{0, 6, 3, 2, 1};
  const float dloss = 0.3F;
  const auto slopes = [&](cuda::LossGradient gradient) {
    std::vector<float> found(2 * kValues);
    run_loop([&](cudaStream_t stream) {
      return cuda::cross_entropy_backward(kExtents, 0.1F, given.data(), labels.data(), gradient, found.data(),
                                          stream);
    });
    run_loop([&](cudaStream_t stream) {
      return cuda::mean_squared_error_backward(kValues, kExtents.classes, given.data(), targets.data(),
                                               gradient, found.data() + kValues, stream);
    });
    return found;
  };
  const std::vector<float> known = slopes({dloss, nullptr});
  EXPECT_NE(known, slopes({1, nullptr}));
  EXPECT_EQ(known, slopes({1, &dloss}));
}

TEST(LossLoops, TheLossesOfRowsHaveTheSumAndTheGradientOfAll) {
  const std::vector<float> logits = numbers(kValues, 1);
  const std::vector<int32_t> labels{0, 6, 3, 2, 1};
  std::vector<float> log_probabilities(kValues);
  std::vector<float> losses(kExtents.rows);
  std::vector<float> between(kExtents.rows);
  float loss = 0;
  run_loop([&](cudaStream_t stream) {
    return cuda::cross_entropy(kExtents, 0.1F, logits.data(), labels.data(), {&loss, false},
                               log_probabilities.data(), between.data(), stream);
  });
  run_loop([&](cudaStream_t stream) {
    return cuda::cross_entropy_of_rows(kExtents, 0.1F, logits.data(), labels.data(), log_probabilities.data(),
                                       losses.data(), stream);
  });
  EXPECT_EQ(losses, between);
  EXPECT_NEAR(std::accumulate(losses.begin(), losses.end(), 0.0), loss, 1e-5);

  const std::vector<float> dlosses{1, -2, 0, 0.5F, 3};
  std::vector<float> found(kValues);
  run_loop([&](cudaStream_t stream) {
    return cuda::cross_entropy_of_rows_backward(kExtents, 0.1F, log_probabilities.data(), labels.data(),
                                                dlosses.data(), found.data(), stream);
  });
  for (int64_t row = 0; row < kExtents.rows; ++row) {
    const cuda::Classes one{1, kExtents.classes};
    std::vector<float> right(kExtents.classes);
    run_loop([&](cudaStream_t stream) {
      return cuda::cross_entropy_backward(one, 0.1F, log_probabilities.data() + row * kExtents.classes,
                                          labels.data() + row, {dlosses[row], nullptr}, right.data(), stream);
    });
    EXPECT_EQ(std::vector<float>(found.begin() + row * kExtents.classes,
                                 found.begin() + (row + 1) * kExtents.classes),
              right);
  }
}

}  // namespace telar::test
