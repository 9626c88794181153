#include <algorithm>
#include <cmath>
#include <limits>

#include "telar/device/cpu/kernels.h"
#include "telar/device/cpu/kernels/common/broadcast.h"
#include "telar/device/cpu/kernels/common/f32_memory.h"
#include "telar/device/cpu/parallel.h"
#include "telar/device/cpu/primitives.h"
#include "telar/device/cpu/sum_loops.h"

namespace telar::cpu {

namespace {

constexpr int64_t kTermsAThread = 16384;  // elements for each thread

/// The shape of the result, in which reduced axes have extent 1.
Shape kept_shape(const Shape& x, const Attributes& attributes) {
  Shape kept = x;
  for (const int64_t axis : attributes.integers("axes")) kept[static_cast<size_t>(axis)] = 1;
  return kept;
}

/// The offset of each row (the last axis) of x in the reduced tensor.
class Rows {
 public:
  Rows(const Shape& x, const Shape& kept) : x_(x.dims()), strides_(x.rank()) {
    int64_t stride = 1;
    for (size_t i = x.rank(); i-- > 0;) {
      strides_[i] = kept[i] == 1 ? 0 : stride;
      stride *= kept[i];
    }
    length_ = x_.back();
    count_ = x.elements() / length_;
    // If axis 0 is kept, rows of different items have different results, so threads may divide the items.
    items_ = kept[0] == x[0] && x.rank() > 1 ? x[0] : 1;
  }

  int64_t length() const { return length_; }
  int64_t step() const { return strides_.back(); }
  int64_t reduced_offset(int64_t row) const {
    int64_t offset = 0;
    for (size_t i = x_.size() - 1; i-- > 0;) {
      offset += row % x_[i] * strides_[i];
      row /= x_[i];
    }
    return offset;
  }

  /// Calls visit(offset of the row in x, offset of its first result), in order within each item.
  template <typename Visit>
  void for_each(const Visit& visit) const {
    const int64_t rows_per_item = count_ / items_;
    parallel_for(items_, std::max<int64_t>(1, kTermsAThread / (rows_per_item * length_)),
                 [&](int64_t begin, int64_t end) {
                   for (int64_t row = begin * rows_per_item; row < end * rows_per_item; ++row) {
                     visit(row * length_, reduced_offset(row));
                   }
                 });
  }

 private:
  std::vector<int64_t> x_;
  std::vector<int64_t> strides_;
  int64_t length_ = 1;
  int64_t count_ = 1;
  int64_t items_ = 1;
};

/// The sums over the axes along which `kept` has extent 1, times a factor. A loop of our own: oneDNN's
/// reduction is slow unless the last axes are reduced.
void lower_sums(Lowering& lowering, const Node& node, const Shape& kept, float factor) {
  const Shape& shape = lowering.shape(node.inputs[0]);
  const auto axes = walk_of<2>(shape, {shape, kept});
  const RegionId terms = f32_region(lowering, node.inputs[0]);
  const F32Result result(lowering, node.outputs[0]);
  lowering.function({terms}, {result.region}, [=](const Pointers& p) {
    run_sums(axes, factor, p.get<const float>(0), p.get<float>(1));
  });
  result.finish(lowering);
}

void lower_sum_to(Lowering& lowering, const Node& node) {
  const Shape& whole = lowering.shape(node.inputs[0]);
  const Shape& target = lowering.shape(node.outputs[0]);
  std::vector<int64_t> kept(whole.rank() - target.rank(), 1);
  kept.insert(kept.end(), target.begin(), target.end());
  lower_sums(lowering, node, Shape(kept), 1.0F);
}

/// The sum of a whole tensor does not depend on the layout, and all threads can compute it. oneDNN's
/// reduction needs plain layout and computes one result on one thread.
bool sums_all(Lowering& lowering, const Node& node) {
  const ValueId x = node.inputs[0];
  const Shape& shape = lowering.shape(x);
  return lowering.type(x).dtype == DType::f32 && is_dense(lowering.layout(x)) && shape.elements() > 1 &&
         kept_shape(shape, node.attributes).elements() == 1;
}

void lower_sum_of_all(Lowering& lowering, const Node& node) {
  const ValueId x = node.inputs[0];
  const int64_t count = lowering.shape(x).elements();
  const int64_t pieces = (count + kTermsAThread - 1) / kTermsAThread;
  const RegionId sums = lowering.temporary(plain(DType::f32, {pieces}));
  const RegionId from = lowering.region(x);
  lowering.function({from}, {sums, lowering.define_plain(node.outputs[0])}, [=](const Pointers& p) {
    const auto* values = p.get<const float>(0);
    auto* sum = p.get<float>(1);
    parallel_for(pieces, 1, [&](int64_t begin, int64_t end) {
      for (int64_t piece = begin; piece < end; ++piece)
        sum[piece] =
            sum_of(values + piece * kTermsAThread, std::min(kTermsAThread, count - piece * kTermsAThread));
    });
    *p.get<float>(2) = sum_of(sum, pieces);
  });
}

void lower_spread(Lowering& lowering, const Node& node, float factor) {
  const Shape& x = lowering.shape(node.inputs[1]);
  const Rows rows(x, kept_shape(x, node.attributes));
  const RegionId gradient = f32_region(lowering, node.inputs[0]);
  const F32Result result(lowering, node.outputs[0]);
  lowering.function({gradient}, {result.region}, [=](const Pointers& p) {
    const auto* dy = p.get<const float>(0);
    auto* dx = p.get<float>(1);
    rows.for_each([&](int64_t row, int64_t reduced) {
      for (int64_t i = 0; i < rows.length(); ++i) dx[row + i] = factor * dy[reduced + i * rows.step()];
    });
  });
  result.finish(lowering);
}

void lower_reduce_sum(Lowering& lowering, const Node& node) {
  if (sums_all(lowering, node)) return lower_sum_of_all(lowering, node);
  lower_sums(lowering, node, kept_shape(lowering.shape(node.inputs[0]), node.attributes), 1.0F);
}

void lower_reduce_mean(Lowering& lowering, const Node& node) {
  const Shape& shape = lowering.shape(node.inputs[0]);
  const Shape kept = kept_shape(shape, node.attributes);
  lower_sums(lowering, node, kept,
             static_cast<float>(kept.elements()) / static_cast<float>(shape.elements()));
}

/// A loop of our own for values that are not finite: oneDNN's kernels drop NaN, and make a number of −∞.
void lower_max_of_any(Lowering& lowering, const Node& node) {
  const Shape& x = lowering.shape(node.inputs[0]);
  const Rows rows(x, kept_shape(x, node.attributes));
  const int64_t results = kept_shape(x, node.attributes).elements();
  const RegionId from = f32_region(lowering, node.inputs[0]);
  const F32Result result(lowering, node.outputs[0]);
  lowering.function({from}, {result.region}, [=](const Pointers& p) {
    const auto* values = p.get<const float>(0);
    auto* largest = p.get<float>(1);
    std::fill_n(largest, results, -std::numeric_limits<float>::infinity());
    rows.for_each([&](int64_t row, int64_t reduced) {
      for (int64_t i = 0; i < rows.length(); ++i) {
        float& before = largest[reduced + i * rows.step()];
        if (!(before >= values[row + i]) && !std::isnan(before)) before = values[row + i];
      }
    });
  });
  result.finish(lowering);
}

void lower_reduce_max(Lowering& lowering, const Node& node) {
  const ValueId x = node.inputs[0];
  const DType dtype = lowering.type(x).dtype;
  const Desc to = plain(dtype, kept_shape(lowering.shape(x), node.attributes));
  const bool copies = kept_shape(lowering.shape(x), node.attributes) == lowering.shape(x);
  if (lowering.non_finite() && !copies) return lower_max_of_any(lowering, node);
  const RegionId result = lowering.define_plain(node.outputs[0]);
  if (copies) {  // reduced axes have one element
    lowering.reorder(lowering.plain_region(x), lowering.view(result, to));
    return;
  }
  if (lowering.non_finite()) return lower_max_of_any(lowering, node);
  const auto pd = reduction(dnnl::algorithm::reduction_max, plain(dtype, lowering.shape(x)), to);
  lowering.primitive(pd, dnnl::reduction(pd),
                     {{DNNL_ARG_SRC, lowering.plain_region(x)}, {DNNL_ARG_DST, lowering.view(result, to)}});
}

void lower_reduce_sum_backward(Lowering& lowering, const Node& node) { lower_spread(lowering, node, 1.0F); }

void lower_reduce_mean_backward(Lowering& lowering, const Node& node) {
  const auto whole = static_cast<float>(lowering.shape(node.inputs[1]).elements());
  lower_spread(lowering, node, static_cast<float>(lowering.shape(node.inputs[0]).elements()) / whole);
}

void lower_reduce_max_backward(Lowering& lowering, const Node& node) {
  const Shape& x = lowering.shape(node.inputs[1]);
  const Rows rows(x, kept_shape(x, node.attributes));
  const int64_t results = lowering.shape(node.inputs[0]).elements();
  const std::vector<RegionId> reads{f32_region(lowering, node.inputs[0]),
                                    f32_region(lowering, node.inputs[1]),
                                    f32_region(lowering, node.inputs[2])};
  const RegionId share = lowering.temporary(plain(DType::f32, lowering.shape(node.inputs[0])));
  // First counts the elements that equal each maximum, then computes the gradient that each of them gets.
  lowering.function({reads[1], reads[2]}, {share}, [=](const Pointers& p) {
    const auto* values = p.get<const float>(0);
    const auto* largest = p.get<const float>(1);
    auto* count = p.get<float>(2);
    std::fill_n(count, results, 0.0F);
    rows.for_each([&](int64_t row, int64_t result) {
      for (int64_t i = 0; i < rows.length(); ++i) {
        const int64_t j = result + i * rows.step();
        count[j] += values[row + i] == largest[j] ? 1.0F : 0.0F;
      }
    });
  });
  const F32Result result(lowering, node.outputs[0]);
  lowering.function({reads[0], reads[1], reads[2], share}, {result.region}, [=](const Pointers& p) {
    const auto* dy = p.get<const float>(0);
    const auto* values = p.get<const float>(1);
    const auto* largest = p.get<const float>(2);
    const auto* count = p.get<const float>(3);
    auto* dx = p.get<float>(4);
    rows.for_each([&](int64_t row, int64_t reduced) {
      for (int64_t i = 0; i < rows.length(); ++i) {
        const int64_t j = reduced + i * rows.step();
        dx[row + i] = values[row + i] == largest[j] ? dy[j] / count[j]
                      : std::isnan(largest[j])      ? largest[j]
                                                    : 0.0F;
      }
    });
  });
  result.finish(lowering);
}

}  // namespace

void register_reduce(Kernels& kernels) {
  kernels.add("reduce_max", lower_reduce_max);
  kernels.add("reduce_max_backward", lower_reduce_max_backward);
  kernels.add("reduce_mean", lower_reduce_mean);
  kernels.add("reduce_mean_backward", lower_reduce_mean_backward);
  kernels.add("reduce_sum", lower_reduce_sum);
  kernels.add("reduce_sum_backward", lower_reduce_sum_backward);
  kernels.add("sum_to", lower_sum_to);
}

}  // namespace telar::cpu
