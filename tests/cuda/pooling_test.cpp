#include "telar/device/cuda/loops/pooling.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "cuda/fakes.h"
#include "cuda/run_loop.h"
#include "ops/run_graph.h"
#include "telar/core/buffer.h"
#include "telar/device/cuda/loops/walk.h"

namespace telar::test {

namespace {

using cuda::Pooling;

/// The shape of x or y of a pooling, with the offsets of their values.
struct Image {
  const Pooling& of;
  int64_t height, width;
  size_t values() const { return static_cast<size_t>(of.images * of.channels * height * width); }
  size_t at(int64_t n, int64_t c, int64_t h, int64_t w) const {
    return static_cast<size_t>(of.last ? ((n * height + h) * width + w) * of.channels + c
                                       : ((n * of.channels + c) * height + h) * width + w);
  }
};

/// Calls f(index in y, indices in x of its window, row by row).
template <typename F>
void for_each_window(const Pooling& of, const F& f) {
  const Image x{of, of.down.size, of.right.size};
  const Image y{of, of.down.windows, of.right.windows};
  for (int64_t n = 0; n < of.images; ++n)
    for (int64_t c = 0; c < of.channels; ++c)
      for (int64_t i = 0; i < of.down.windows; ++i)
        for (int64_t j = 0; j < of.right.windows; ++j) {
          std::vector<size_t> window;
          for (int64_t k = 0; k < of.down.kernel * of.right.kernel; ++k) {
            const int64_t h = i * of.down.stride - of.down.padding + k / of.right.kernel;
            const int64_t w = j * of.right.stride - of.right.padding + k % of.right.kernel;
            if (h >= 0 && h < x.height && w >= 0 && w < x.width) window.push_back(x.at(n, c, h, w));
          }
          f(y.at(n, c, i, j), window);
        }
}

cuda::PoolingAxis axis(int64_t size, int64_t kernel, int64_t stride, int64_t padding) {
  return {size, (size + 2 * padding - kernel) / stride + 1, kernel, stride, padding};
}

/// Windows that overlap, that skip values, that cover everything (more values than a byte can count);
/// channels that allow wide access and others.
std::vector<Pooling> poolings() {
  std::vector<Pooling> all;
  for (const int64_t channels : {3, 16}) {
    for (const bool last : {false, true}) {
      all.push_back({2, channels, axis(9, 3, 2, 1), axis(8, 3, 2, 1), last});
      all.push_back({2, channels, axis(7, 2, 2, 0), axis(5, 3, 1, 1), last});
      all.push_back({1, channels, axis(8, 2, 3, 1), axis(11, 1, 2, 0), last});
      all.push_back({2, channels, axis(18, 18, 1, 0), axis(17, 17, 1, 0), last});
    }
  }
  return all;
}

class PoolingLoops : public ::testing::TestWithParam<size_t> {
 protected:
  PoolingLoops() {
    // Few different values, so that many are equal.
    const std::vector<float> given = numbers(static_cast<int64_t>(inputs), 5);
    for (size_t i = 0; i < inputs; ++i) store(x.data(), bf16, i, std::round(2 * given[i]) / 2 - 2);
    const std::vector<float> slopes = numbers(static_cast<int64_t>(outputs), 6);
    for (size_t i = 0; i < outputs; ++i) store(dy.data(), bf16, i, slopes[i]);
  }
  void expect(const Buffer& found, const std::vector<double>& wanted) const {
    for (size_t i = 0; i < wanted.size(); ++i) {
      EXPECT_NEAR(load(found.data(), bf16, i), wanted[i],
                  (bf16 ? 1e-2 : 1e-6) * std::max(1.0, std::abs(wanted[i])))
          << i;
    }
  }

  bool bf16 = GetParam() % 2 != 0;
  DType dtype = bf16 ? DType::bf16 : DType::f32;
  Pooling of = poolings()[GetParam() / 2];
  size_t inputs = Image{of, of.down.size, of.right.size}.values();
  size_t outputs = Image{of, of.down.windows, of.right.windows}.values();
  Buffer x{inputs * size_of(dtype)};
  Buffer y{outputs * size_of(dtype)};
  Buffer dx{inputs * size_of(dtype)};
  Buffer dy{outputs * size_of(dtype)};
};

}  // namespace

TEST_P(PoolingLoops, TakeTheFirstOfTheLargestValuesAndGiveItTheGradient) {
  std::vector<double> largest(outputs);
  std::vector<double> slopes(inputs);
  for_each_window(of, [&](size_t output, const std::vector<size_t>& window) {
    size_t winner = window.front();
    for (const size_t i : window)
      if (load(x.data(), bf16, i) > load(x.data(), bf16, winner)) winner = i;
    largest[output] = load(x.data(), bf16, winner);
    slopes[winner] += load(dy.data(), bf16, output);
  });
  Buffer winners(cuda::winner_bytes(of));
  run_loop([&](cudaStream_t stream) {
    return cuda::max_pool(x.data(), dtype, of, y.data(), winners.data(), stream);
  });
  expect(y, largest);
  run_loop([&](cudaStream_t stream) {
    return cuda::max_pool_backward(dy.data(), winners.data(), dtype, of, dx.data(), stream);
  });
  expect(dx, slopes);
}

TEST_P(PoolingLoops, TakeTheMeanWithThePaddingAsZeros) {
  std::vector<double> mean(outputs);
  std::vector<double> slopes(inputs);
  const auto area = static_cast<double>(of.down.kernel * of.right.kernel);
  for_each_window(of, [&](size_t output, const std::vector<size_t>& window) {
    for (const size_t i : window) {
      mean[output] += load(x.data(), bf16, i) / area;
      slopes[i] += load(dy.data(), bf16, output) / area;
    }
  });
  run_loop([&](cudaStream_t stream) { return cuda::average_pool(x.data(), dtype, of, y.data(), stream); });
  expect(y, mean);
  run_loop([&](cudaStream_t stream) {
    return cuda::average_pool_backward(dy.data(), dtype, of, dx.data(), stream);
  });
  expect(dx, slopes);
}

TEST_P(PoolingLoops, KeepANaN) {
  size_t non_finite = 0;
  for_each_window(of, [&](size_t output, const std::vector<size_t>& window) {
    if (output == 0) store(x.data(), bf16, non_finite = window.back(), NAN);
  });
  run_loop(
      [&](cudaStream_t stream) { return cuda::max_pool(x.data(), dtype, of, y.data(), nullptr, stream); });
  for_each_window(of, [&](size_t output, const std::vector<size_t>& window) {
    const bool reads = std::find(window.begin(), window.end(), non_finite) != window.end();
    EXPECT_EQ(std::isnan(load(y.data(), bf16, output)), reads) << output;
  });
}

INSTANTIATE_TEST_SUITE_P(Cases, PoolingLoops, ::testing::Range<size_t>(0, 2 * poolings().size()));

TEST(CudaDivisor, DividesAsAProcessorDoes) {
  std::vector<int32_t> divisors{1, 3, 5, 7, 10, 641, 715827883, INT32_MAX - 1, INT32_MAX};
  for (int32_t power = 1; power < 31; ++power)
    for (const int32_t near : {-1, 0, 1}) divisors.push_back((int32_t{1} << power) + near);
  for (const int32_t divisor : divisors) {
    const cuda::Divisor<int32_t> by(divisor);
    for (int64_t multiple = divisor; multiple <= INT32_MAX; multiple = multiple * 3 + divisor)
      for (const int64_t near : {multiple - 1, multiple, std::min<int64_t>(multiple + 1, INT32_MAX)})
        EXPECT_EQ(static_cast<int32_t>(near) / by, near / divisor) << near << " / " << divisor;
    for (const int32_t number : {0, 1, 2, INT32_MAX - 1, INT32_MAX})
      EXPECT_EQ(number / by, number / divisor) << number << " / " << divisor;
  }
  EXPECT_EQ((int64_t{1} << 40) / cuda::Divisor<int64_t>(3), (int64_t{1} << 40) / 3);
}

}  // namespace telar::test
