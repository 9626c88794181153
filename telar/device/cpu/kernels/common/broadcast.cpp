#include "telar/device/cpu/kernels/common/broadcast.h"

#include <algorithm>
#include <span>

#include "telar/core/simd.h"
#include "telar/device/cpu/parallel.h"
#include "telar/device/cpu/sum_loops.h"

namespace telar::cpu {

namespace {

constexpr int64_t kTermsAThread = 16384;

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

template <typename Operation>
[[gnu::always_inline]] inline void rows(const std::vector<WalkedAxis<3>>& axes, const float* a,
                                        const float* b, float* y, int64_t begin, int64_t end) {
  const WalkedAxis<3>& inner = axes.back();
  RowWalk walk(axes, begin / inner.extent);
  int64_t from = begin % inner.extent;
  while (begin < end) {
    const int64_t length = std::min(inner.extent - from, end - begin);
    float* to = y + walk.y() + from;
    const float* first = a + walk.a() + from * inner.steps[1];
    const float* second = b + walk.b() + from * inner.steps[2];
    if (inner.steps[1] != 0 && inner.steps[2] != 0) {
      for (int64_t i = 0; i < length; ++i) to[i] = Operation::of(first[i], second[i]);
    } else if (inner.steps[1] != 0) {
      const float value = *second;
      for (int64_t i = 0; i < length; ++i) to[i] = Operation::of(first[i], value);
    } else {
      const float value = *first;
      for (int64_t i = 0; i < length; ++i) to[i] = Operation::of(value, second[i * inner.steps[2]]);
    }
    begin += length;
    from = 0;
    walk.next();
  }
}

TELAR_FOR_EACH_CPU
void add_rows(const std::vector<WalkedAxis<3>>& axes, const float* a, const float* b, float* y, int64_t begin,
              int64_t end) {
  rows<Add>(axes, a, b, y, begin, end);
}

TELAR_FOR_EACH_CPU
void mul_rows(const std::vector<WalkedAxis<3>>& axes, const float* a, const float* b, float* y, int64_t begin,
              int64_t end) {
  rows<Mul>(axes, a, b, y, begin, end);
}

TELAR_FOR_EACH_CPU
void add_relu_rows(const std::vector<WalkedAxis<3>>& axes, const float* a, const float* b, float* y,
                   int64_t begin, int64_t end) {
  rows<AddThenRelu>(axes, a, b, y, begin, end);
}

/// y[j] += the sum of column j of x; in blocks, so that rounding does not grow with the number of rows.
TELAR_FOR_EACH_CPU
void add_columns(const WalkedAxis<2>& rows, int64_t columns, const float* x, float* y) {
  constexpr int64_t kColumns = 256;
  constexpr int64_t kRows = 128;
  for (int64_t j = 0; j < columns; j += kColumns) {
    const int64_t width = std::min(kColumns, columns - j);
    for (int64_t i = 0; i < rows.extent; i += kRows) {
      std::array<float, kColumns> sums = {};
      for (int64_t row = i; row < std::min(i + kRows, rows.extent); ++row) {
        const float* values = x + row * rows.steps[0] + j;
        for (int64_t column = 0; column < width; ++column) sums[column] += values[column];
      }
      for (int64_t column = 0; column < width; ++column) y[j + column] += sums[column];
    }
  }
}

float sum_of_row(const float* x, int64_t count) {
  constexpr int64_t kShort = 32;
  if (count >= kShort) return sum_of(x, count);
  float sum = x[0];
  for (int64_t i = 1; i < count; ++i) sum += x[i];
  return sum;
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
    return add_columns(*axis, last->extent, x, y);
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
  run(axes, a, b, y, begin, end);
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
