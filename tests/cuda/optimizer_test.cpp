#include "telar/device/cuda/loops/optimizer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "cuda/run_loop.h"

namespace telar::test {

TEST(UpdateLoops, UpdateAllInTheStepThatFindsAGradientThatIsNotFiniteAndNothingAfterIt) {
  constexpr size_t kCount = 64;
  const float loss = 0.5F;
  float non_finite = 0;
  std::vector<float> parameters(kCount, 8);
  std::vector<float> gradients(kCount, 1);
  cuda::UpdateMemory memory;
  memory.parameters = parameters.data();
  memory.gradients = gradients.data();
  memory.count = kCount;
  memory.loss = &loss;
  memory.non_finite = &non_finite;
  const auto step = [&](float mark) {
    memory.mark = mark;
    const SgdRule rule{1, 1, 0, 0, false, false};
    run_loop([&](cudaStream_t stream) { return cuda::update(rule, memory, stream); });
  };
  const auto expect_all = [&](float value) {
    for (size_t i = 1; i < kCount; ++i) EXPECT_EQ(parameters[i], value) << i;
  };
  step(1);
  expect_all(7);
  EXPECT_EQ(non_finite, 0);
  gradients[0] = NAN;  // the first non-finite value
  step(2);
  expect_all(6);
  EXPECT_EQ(non_finite, 2);
  gradients[0] = 1;
  step(3);
  expect_all(6);
  EXPECT_NE(non_finite, 0);
}

}  // namespace telar::test
