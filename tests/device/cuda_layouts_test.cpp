#include <gtest/gtest.h>

#include <numeric>

#include "support/sentences.h"
#include "telar/core/bf16.h"
#include "telar/device/cuda/kernels/common/matrix_product.h"
#include "telar/device/cuda/layouts.h"

namespace telar::cuda {
namespace {

std::vector<float> counted(int64_t count) {
  std::vector<float> values(static_cast<size_t>(count));
  std::iota(values.begin(), values.end(), 1.0F);
  return values;
}

/// The same computation as the GPU loop.
template <typename T>
std::vector<T> transposed(const std::vector<T>& x, const Transposition& stack) {
  std::vector<T> y(x.size());
  for (size_t i = 0; i < x.size(); ++i)
    y[i] = x[static_cast<size_t>(transposed_source(static_cast<int64_t>(i), stack.rows, stack.columns))];
  const auto last = static_cast<uint32_t>(x.size() - 1);
  EXPECT_EQ(
      y.back(),
      x[transposed_source(last, static_cast<uint32_t>(stack.rows), static_cast<uint32_t>(stack.columns))]);
  return y;
}

TEST(CudaLayouts, ChannelsComeLast) {
  const Shape shape{2, 3, 4, 5};
  const std::vector<float> x = counted(shape.elements());
  const std::vector<float> y = transposed(x, transposition_to(Layout::channels_last, shape));
  for (int64_t n = 0; n < 2; ++n)
    for (int64_t c = 0; c < 3; ++c)
      for (int64_t h = 0; h < 4; ++h)
        for (int64_t w = 0; w < 5; ++w)
          EXPECT_EQ(y[static_cast<size_t>(((n * 4 + h) * 5 + w) * 3 + c)],
                    x[static_cast<size_t>(((n * 3 + c) * 4 + h) * 5 + w)]);
  EXPECT_EQ(transposed(y, transposition_to(Layout::plain, shape)), x);
}

TEST(CudaLayouts, ResultsAreCanonicalAndF32) {
  const Shape shape{2, 3, 4, 5};
  const std::vector<float> x = counted(shape.elements());
  const Transposition stack = transposition_to(Layout::channels_last, shape);
  const auto y = transposed(x, stack);
  EXPECT_EQ(canonical_values(std::as_bytes(std::span(x)), {DType::f32, shape}, Layout::plain), x);
  EXPECT_EQ(canonical_values(std::as_bytes(std::span(y)), {DType::f32, shape}, Layout::channels_last), x);
  std::vector<uint16_t> halves;
  for (const float value : y) halves.push_back(to_bf16(value));  // up to 120: exact in bf16
  EXPECT_EQ(canonical_values(std::as_bytes(std::span(halves)), {DType::bf16, shape}, Layout::channels_last),
            x);
}

TEST(CudaLayouts, SizesAreOfTheTypeAndWhatHasNoneIsRefused) {
  EXPECT_EQ(bytes_of({DType::f32, {3, 5}}), 60U);
  EXPECT_EQ(bytes_of({DType::bf16, {3, 5}}), 30U);
  EXPECT_EQ(align_up_memory(1), 256U);
  EXPECT_EQ(align_up_memory(512), 512U);
  test::expect_error([] { bytes_of({DType::opaque, {3}}); }, {"opaque [3]"}, Error::Kind::run);
  test::expect_error([] { transposition_to(Layout::plain, {3, 5}); }, {"[3, 5]"}, Error::Kind::run);
  test::expect_error(
      [] {
        canonical_values({}, {DType::f32, {3}}, Layout::plain);
      },
      {"0 bytes"}, Error::Kind::run);
}

/// The index of element (row, column) of a column-major operand, as the product uses it, in matrix `index` of
/// the batch.
size_t place(const ColumnMajor& matrix, int64_t index, int64_t row, int64_t column) {
  if (matrix.transposed) std::swap(row, column);
  return static_cast<size_t>(index * matrix.rows * matrix.columns + column * matrix.rows + row);
}

/// y = a · b, computed from the description like cuBLAS does.
std::vector<float> multiplied(const MatrixProduct& product, const std::vector<float>& a,
                              const std::vector<float>& b) {
  const ColumnMajor& y = product.result;
  const int64_t depth = product.left.transposed ? product.left.rows : product.left.columns;
  std::vector<float> result(static_cast<size_t>(product.batch * y.rows * y.columns));
  for (int64_t m = 0; m < product.batch; ++m)
    for (int64_t row = 0; row < y.rows; ++row)
      for (int64_t column = 0; column < y.columns; ++column)
        for (int64_t k = 0; k < depth; ++k)
          result[place(y, m, row, column)] +=
              b[place(product.left, m, row, k)] * a[place(product.right, m, k, column)];
  return result;
}

TEST(CudaProducts, AreRowMajor) {
  // [[1, 2, 3], [4, 5, 6]] · [[1, 2], [3, 4], [5, 6]], and the operands in transposed form
  const std::vector<float> a{1, 2, 3, 4, 5, 6};
  const std::vector<float> at{1, 4, 2, 5, 3, 6};
  const std::vector<float> b{1, 2, 3, 4, 5, 6};
  const std::vector<float> bt{1, 3, 5, 2, 4, 6};
  const std::vector<float> y{22, 28, 49, 64};
  const Shape shape{2, 2};
  EXPECT_EQ(multiplied(matrix_product({2, 3}, false, {3, 2}, false, shape), a, b), y);
  EXPECT_EQ(multiplied(matrix_product({3, 2}, true, {3, 2}, false, shape), at, b), y);
  EXPECT_EQ(multiplied(matrix_product({2, 3}, false, {2, 3}, true, shape), a, bt), y);
  EXPECT_EQ(multiplied(matrix_product({3, 2}, true, {2, 3}, true, shape), at, bt), y);
}

TEST(CudaProducts, OfABatchLieOneBehindTheOther) {
  const MatrixProduct product = matrix_product({2, 3, 1, 2}, false, {2, 3, 2, 1}, false, {2, 3, 1, 1});
  EXPECT_EQ(product.batch, 6);
  const std::vector<float> values = counted(12);
  EXPECT_EQ(multiplied(product, values, values),
            (std::vector<float>{1 + 4, 9 + 16, 25 + 36, 49 + 64, 81 + 100, 121 + 144}));
}

}  // namespace
}  // namespace telar::cuda
