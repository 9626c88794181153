#include "telar/device/cuda/loops/order.h"

#include "telar/device/cuda/loops/launch.h"

namespace telar::cuda {

namespace {

TELAR_GPU bool is_less(float a, float b) { return b != b ? a == a : a < b; }

/// An element of a row; place −1 is none.
struct Candidate {
  float key;
  int32_t place;
};

/// Which of two elements comes first.
struct First {
  bool descending;
  TELAR_GPU bool comes_first(Candidate a, Candidate b) const {
    if (is_less(a.key, b.key)) return !descending;
    if (is_less(b.key, a.key)) return descending;
    return a.place < b.place;
  }
  TELAR_GPU Candidate operator()(Candidate a, Candidate b) const {
    if (a.place < 0 || b.place < 0) return a.place < 0 ? b : a;
    return comes_first(a, b) ? a : b;
  }
};

cudaError_t first_of_each(const float* x, int32_t* y, const OrderedRows& of, cudaStream_t stream) {
  return reduce(
      of.rows, of.extent, stream, Candidate{0, -1},
      [=] TELAR_GPU(int64_t row, int64_t k) {
        const int64_t begin = row / of.step * of.extent * of.step + row % of.step;
        return Candidate{x[begin + k * of.step], static_cast<int32_t>(k)};
      },
      First{of.descending}, [=] TELAR_GPU(int64_t row, Candidate found) { y[row] = found.place; });
}

}  // namespace

cudaError_t order(const float* x, int32_t* y, const OrderedRows& of, cudaStream_t stream) {
  if (of.count == 1) return first_of_each(x, y, of, stream);
  const First first{of.descending};
  return for_each(of.rows * of.extent, stream, [=] TELAR_GPU(int64_t i) {
    const int64_t row = i / of.extent;
    const int64_t outer = row / of.step;
    const int64_t inner = row % of.step;
    const float* keys = x + outer * of.extent * of.step + inner;
    const auto own = static_cast<int32_t>(i % of.extent);
    const Candidate element{keys[own * of.step], own};
    int64_t before = 0;
    for (int32_t k = 0; k < of.extent; ++k)
      if (first.comes_first({keys[k * of.step], k}, element)) ++before;
    if (before < of.count) y[(outer * of.count + before) * of.step + inner] = own;
  });
}

}  // namespace telar::cuda
