#include "telar/device/cpu/kernels/common/broadcast.h"

#include <algorithm>
#include <span>

#include "telar/core/simd.h"
#include "telar/device/cpu/parallel.h"
#include "telar/device/cpu/sum_loops.h"

namespace telar::cpu {

namespace {

constexpr int64_t kTermsAThread = 16384;
constexpr int64_t kShortRow =
    4;  // at most so many elements: a row by itself would cost more than its elements

template <size_t Tensors>
bool continues(const WalkedAxis<Tensors>& outer, const WalkedAxis<Tensors>& inner) {
  for (size_t t = 0; t < Tensors; ++t)
    if (outer.steps[t] != inner.steps[t] * inner.extent) return false;
  return true;
}

/// Where a walk over several axes is: offsets of the tensors at the beginning of a row, the last axis.
class RowWalk {
 public:
  RowWalk(std::span<const WalkedAxis<3>> axes, int64_t row) : axes_(axes), index_(axes.size(), 0) {
    for (size_t i = axes.size() - 1; i-- > 0;) {
      index_[i] = row % axes[i].extent;
      row /= axes[i].extent;
      for (size_t t = 0; t < 3; ++t) at_[t] += index_[i] * axes[i].steps[t];
    }
  }
  int64_t y() const { return at_[0]; }
  int64_t a() const { return at_[1]; }
  int64_t b() const { return at_[2]; }
  void next() {
    for (size_t i = axes_.size() - 1; i-- > 0;) {
      const WalkedAxis<3>& axis = axes_[i];
      for (size_t t = 0; t < 3; ++t) at_[t] += axis.steps[t];
      if (++index_[i] < axis.extent) return;
      for (size_t t = 0; t < 3; ++t) at_[t] -= axis.extent * axis.steps[t];
      index_[i] = 0;
    }
  }

 private:
  std::span<const WalkedAxis<3>> axes_;
  std::vector<int64_t> index_;
  std::array<int64_t, 3> at_ = {};
};

struct Add {
  static float of(float a, float b) { return a + b; }
};
struct Mul {
  static float of(float a, float b) { return a * b; }
};
struct AddThenRelu {
  static float of(float a, float b) { return std::max(a + b, 0.0F); }
};

struct Operands {
  const float* a;
  const float* b;
  float* y;
};

/// Calls row(operands, length) for each row of the walk, or part of one, in [begin, end).
template <typename Row>
[[gnu::always_inline]] inline void for_each_row(std::span<const WalkedAxis<3>> axes, const Operands& whole,
                                                int64_t begin, int64_t end, const Row& row) {
  const WalkedAxis<3>& inner = axes.back();
  RowWalk walk(axes, begin / inner.extent);
  int64_t from = begin % inner.extent;
  while (begin < end) {
    const int64_t length = std::min(inner.extent - from, end - begin);
    row(Operands{whole.a + walk.a() + from * inner.steps[1], whole.b + walk.b() + from * inner.steps[2],
                 whole.y + walk.y() + from * inner.steps[0]},
        length);
    begin += length;
    from = 0;
    walk.next();
  }
}

template <typename Operation>
[[gnu::always_inline]] inline void elements(std::span<const WalkedAxis<3>> axes, const Operands& operands,
                                            int64_t begin, int64_t end) {
  const auto& steps = axes.back().steps;
  for_each_row(
      axes, operands, begin, end, [&](const Operands& at, int64_t length) __attribute__((always_inline)) {
        if (steps[1] != 0 && steps[2] != 0) {
          for (int64_t i = 0; i < length; ++i) at.y[i] = Operation::of(at.a[i], at.b[i]);
        } else if (steps[1] != 0) {
          const float value = *at.b;
          for (int64_t i = 0; i < length; ++i) at.y[i] = Operation::of(at.a[i], value);
        } else {
          const float value = *at.a;
          for (int64_t i = 0; i < length; ++i) at.y[i] = Operation::of(value, at.b[i * steps[2]]);
        }
      });
}

/// Rows of kExtent elements: whole ones, [begin, end), and as many at once as the axis before has.
template <typename Operation, int64_t kExtent>
[[gnu::always_inline]] inline void short_rows(std::span<const WalkedAxis<3>> axes, const Operands& operands,
                                              int64_t begin, int64_t end) {
  const auto& inner = axes.back().steps;
  const auto outer = axes.first(axes.size() - 1);
  const auto& steps = outer.back().steps;
  for_each_row(
      outer, operands, begin, end, [&](const Operands& at, int64_t length) __attribute__((always_inline)) {
        for (int64_t i = 0; i < length; ++i)
          for (int64_t j = 0; j < kExtent; ++j)
            at.y[i * kExtent + j] =
                Operation::of(at.a[i * steps[1] + j * inner[1]], at.b[i * steps[2] + j * inner[2]]);
      });
}

template <typename Operation>
[[gnu::always_inline]] inline void rows(std::span<const WalkedAxis<3>> axes, const Operands& operands,
                                        int64_t begin, int64_t end) {
  const int64_t extent = axes.back().extent;
  if (axes.size() == 1 || extent > kShortRow) return elements<Operation>(axes, operands, begin, end);
  const int64_t first = std::min(end, (begin + extent - 1) / extent * extent);
  const int64_t last = std::max(first, end / extent * extent);
  elements<Operation>(axes, operands, begin, first);
  if (extent == 2) short_rows<Operation, 2>(axes, operands, first / 2, last / 2);
  if (extent == 3) short_rows<Operation, 3>(axes, operands, first / 3, last / 3);
  if (extent == 4) short_rows<Operation, 4>(axes, operands, first / 4, last / 4);
  elements<Operation>(axes, operands, last, end);
}

TELAR_FOR_EACH_CPU
void add_rows(std::span<const WalkedAxis<3>> axes, const Operands& operands, int64_t begin, int64_t end) {
  rows<Add>(axes, operands, begin, end);
}

TELAR_FOR_EACH_CPU
void mul_rows(std::span<const WalkedAxis<3>> axes, const Operands& operands, int64_t begin, int64_t end) {
  rows<Mul>(axes, operands, begin, end);
}

TELAR_FOR_EACH_CPU
void add_relu_rows(std::span<const WalkedAxis<3>> axes, const Operands& operands, int64_t begin,
                   int64_t end) {
  rows<AddThenRelu>(axes, operands, begin, end);
}

float sum_of_row(const float* x, int64_t count) {
  constexpr int64_t kShort = 32;
  if (count >= kShort) return sum_of(x, count);
  float sum = x[0];
  for (int64_t i = 1; i < count; ++i) sum += x[i];
  return sum;
}

/// y[i] += the sum of a row of kExtent elements, for all rows of an axis.
template <int64_t kExtent>
void add_short_rows(const WalkedAxis<2>& axis, const float* x, float* y) {
  for (int64_t i = 0; i < axis.extent; ++i) {
    float sum = x[i * kExtent];
    for (int64_t j = 1; j < kExtent; ++j) sum += x[i * kExtent + j];
    y[i * axis.steps[1]] += sum;
  }
}

/// y += the sums of x.
void add_sums(const WalkedAxis<2>* axis, const WalkedAxis<2>* last, const float* x, float* y) {
  if (axis == last) {
    if (axis->steps[1] == 0) {
      *y += sum_of_row(x, axis->extent);
    } else {
      for (int64_t i = 0; i < axis->extent; ++i) y[i] += x[i];
    }
    return;
  }
  if (axis + 1 == last && axis->steps[1] == 0 && last->steps[1] != 0)
    return add_columns(x, {axis->extent, last->extent, axis->steps[0]}, y);
  if (axis + 1 == last && last->steps[1] == 0 && last->extent == 2) return add_short_rows<2>(*axis, x, y);
  if (axis + 1 == last && last->steps[1] == 0 && last->extent == 3) return add_short_rows<3>(*axis, x, y);
  if (axis + 1 == last && last->steps[1] == 0 && last->extent == 4) return add_short_rows<4>(*axis, x, y);
  for (int64_t i = 0; i < axis->extent; ++i)
    add_sums(axis + 1, last, x + i * axis->steps[0], y + i * axis->steps[1]);
}

}  // namespace

template <size_t Tensors>
std::vector<WalkedAxis<Tensors>> walk_of(const Shape& whole, const std::array<Shape, Tensors>& shapes) {
  std::vector<WalkedAxis<Tensors>> axes;  // the last one first
  std::array<int64_t, Tensors> strides;
  strides.fill(1);
  for (size_t i = whole.rank(); i-- > 0;) {
    WalkedAxis<Tensors> axis{whole[i], {}};
    for (size_t t = 0; t < Tensors; ++t) {
      axis.steps[t] = shapes[t][i] == 1 ? 0 : strides[t];
      strides[t] *= shapes[t][i];
    }
    if (axis.extent == 1) continue;
    if (!axes.empty() && continues(axis, axes.back())) {
      axes.back().extent *= axis.extent;
    } else {
      axes.push_back(axis);
    }
  }
  if (axes.empty()) axes.emplace_back();
  std::reverse(axes.begin(), axes.end());
  return axes;
}

template std::vector<WalkedAxis<2>> walk_of(const Shape&, const std::array<Shape, 2>&);
template std::vector<WalkedAxis<3>> walk_of(const Shape&, const std::array<Shape, 3>&);

void run_broadcast(Elementwise operation, const std::vector<WalkedAxis<3>>& axes, const float* a,
                   const float* b, float* y, int64_t begin, int64_t end) {
  auto* const run = operation == Elementwise::mul   ? mul_rows
                    : operation == Elementwise::add ? add_rows
                                                    : add_relu_rows;
  run(axes, {a, b, y}, begin, end);
}

void run_sums(const std::vector<WalkedAxis<2>>& axes, float factor, const float* x, float* y) {
  int64_t terms = 1;
  int64_t results = 1;
  for (const WalkedAxis<2>& axis : axes) {
    terms *= axis.extent;
    if (axis.steps[1] != 0) results *= axis.extent;
  }
  // The longest axis of the result is divided, so that each thread has results of its own.
  const auto divided = std::max_element(axes.begin(), axes.end(), [](const auto& left, const auto& right) {
    return (left.steps[1] == 0 ? 0 : left.extent) < (right.steps[1] == 0 ? 0 : right.extent);
  });
  std::fill_n(y, results, 0.0F);
  const int64_t items = divided->steps[1] == 0 ? 1 : divided->extent;
  parallel_for(items, std::max<int64_t>(1, kTermsAThread / (terms / items)), [&](int64_t begin, int64_t end) {
    std::vector<WalkedAxis<2>> part = axes;
    WalkedAxis<2>& axis = part[static_cast<size_t>(divided - axes.begin())];
    if (items > 1) axis.extent = end - begin;
    add_sums(part.data(), &part.back(), x + begin * axis.steps[0], y + begin * axis.steps[1]);
  });
  if (factor == 1.0F) return;
  for (int64_t i = 0; i < results; ++i) y[i] *= factor;
}

}  // namespace telar::cpu
