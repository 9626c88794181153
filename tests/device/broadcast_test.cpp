#include "telar/device/cpu/kernels/common/broadcast.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace telar::cpu {
namespace {

/// Shapes of up to five axes, of which some are broadcast or summed.
class Shapes {
 public:
  explicit Shapes(unsigned seed) : random_(seed) {
    const int64_t rank = drawn(1, 5);
    for (int64_t i = 0; i < rank; ++i) dims_.push_back(drawn(0, 3) == 0 ? 1 : drawn(2, i == 0 ? 150 : 6));
  }
  Shape whole() const { return Shape(dims_); }
  Shape part() {
    std::vector<int64_t> dims = dims_;
    for (int64_t& extent : dims)
      if (drawn(0, 1) == 0) extent = 1;
    return Shape(dims);
  }
  std::vector<float> values(const Shape& shape) {
    std::vector<float> values(static_cast<size_t>(shape.elements()));
    for (float& value : values) value = std::uniform_real_distribution<float>(-1, 1)(random_);
    return values;
  }
  int64_t drawn(int64_t least, int64_t most) {
    return std::uniform_int_distribution<int64_t>(least, most)(random_);
  }

 private:
  std::mt19937 random_;
  std::vector<int64_t> dims_;
};

/// The offset in a tensor with some extents 1 of the element of `whole` at `offset`.
int64_t offset_in(const Shape& part, const Shape& whole, int64_t offset) {
  int64_t found = 0;
  int64_t stride = 1;
  for (size_t i = whole.rank(); i-- > 0; offset /= whole[i]) {
    if (part[i] != 1) found += offset % whole[i] * stride;
    stride *= part[i];
  }
  return found;
}

TEST(Broadcast, EqualsTheElementsOneByOne) {
  for (unsigned seed = 0; seed < 500; ++seed) {
    Shapes shapes(seed);
    const Shape whole = shapes.whole();
    const Shape first = shapes.part();
    const Shape second = shapes.part();
    const auto a = shapes.values(first);
    const auto b = shapes.values(second);
    const auto axes = walk_of<3>(whole, {whole, first, second});
    for (const auto operation : {Elementwise::add, Elementwise::add_then_relu, Elementwise::mul}) {
      std::vector<float> y(static_cast<size_t>(whole.elements()), NAN);
      const int64_t cut = shapes.drawn(0, whole.elements());
      run_broadcast(operation, axes, a.data(), b.data(), y.data(), 0, cut);
      run_broadcast(operation, axes, a.data(), b.data(), y.data(), cut, whole.elements());
      for (int64_t i = 0; i < whole.elements(); ++i) {
        const float left = a[static_cast<size_t>(offset_in(first, whole, i))];
        const float right = b[static_cast<size_t>(offset_in(second, whole, i))];
        const float expected = operation == Elementwise::mul   ? left * right
                               : operation == Elementwise::add ? left + right
                                                               : std::max(left + right, 0.0F);
        ASSERT_EQ(y[static_cast<size_t>(i)], expected) << whole.str() << first.str() << second.str();
      }
    }
  }
}

TEST(Sums, EqualTheSumsInDouble) {
  for (unsigned seed = 0; seed < 500; ++seed) {
    Shapes shapes(seed);
    const Shape whole = shapes.whole();
    const Shape kept = shapes.part();
    const auto x = shapes.values(whole);
    std::vector<double> expected(static_cast<size_t>(kept.elements()), 0);
    for (int64_t i = 0; i < whole.elements(); ++i)
      expected[static_cast<size_t>(offset_in(kept, whole, i))] += x[static_cast<size_t>(i)];
    std::vector<float> y(expected.size(), NAN);
    run_sums(walk_of<2>(whole, {whole, kept}), 0.5F, x.data(), y.data());
    for (size_t i = 0; i < y.size(); ++i)
      ASSERT_NEAR(y[i], 0.5 * expected[i], 1e-4) << whole.str() << " to " << kept.str();
  }
}

}  // namespace
}  // namespace telar::cpu
