#include <omp.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "telar/device/cpu/kernels.h"
#include "telar/device/cpu/kernels/common/thread_parts.h"
#include "telar/device/cpu/parallel.h"
#include "telar/device/cpu/primitives.h"
#include "telar/device/cpu/sum_loops.h"

namespace telar::cpu {

namespace {

constexpr int64_t kColumnSumsAThread = 64;
constexpr int64_t kSummandsAThread = 16384;

struct Shapes {
  DType dtype;
  Shape x, w, y;
};

dnnl::inner_product_forward::primitive_desc forward_of(const Shapes& s, bool bias, bool relu) {
  return inner_product_forward(true, any(s.dtype, s.x), any(s.dtype, s.w), bias ? bias_desc(s.y[1]) : Desc(),
                               any(s.dtype, s.y), relu);
}

dnnl::inner_product_backward_weights::primitive_desc backward_weights_of(const Shapes& s, bool bias) {
  return inner_product_backward_weights(any(s.dtype, s.x), any(DType::f32, s.w),
                                        bias ? bias_desc(s.y[1]) : Desc(), any(s.dtype, s.y),
                                        forward_of(s, bias, false));
}

/// The number of equal parts into which a product's samples are divided; the parts run one after the other.
/// oneDNN divides a product by blocks of 64 samples, or by output features if there is only one block. With a
/// division by samples every core reads every weight. The update then waits for each cache line that another
/// core holds. With 128 samples of an MLP 784-256-256-10 on two cores, Adam took 3 times as long. So when
/// there are more weights than inputs, each part is one block. The product itself is not slower.
int64_t sample_parts(const Shapes& s, const Desc& x, const Desc& y) {
  constexpr int64_t kBlock = 64;
  const bool plain_rows = x == plain(s.dtype, s.x) && y == plain(s.dtype, s.y);
  const bool more_weights = s.w.elements() > s.x.elements();
  return plain_rows && more_weights && s.x[0] % kBlock == 0 ? s.x[0] / kBlock : 1;
}

RegionId block_of(Lowering& lowering, RegionId whole, const Desc& desc, int64_t index) {
  return lowering.view(whole, desc, static_cast<size_t>(index) * desc.get_size());
}

void lower_linear(Lowering& lowering, const Node& node) {
  const ValueId x = node.inputs[0];
  const ValueId w = node.inputs[1];
  const ValueId y = node.outputs[0];
  const bool bias = node.inputs[2] != kNoValue;
  const bool relu = node.attributes.text_or("activation", "") == "relu";
  const Shapes s{lowering.type(x).dtype, lowering.shape(x), lowering.shape(w), lowering.shape(y)};
  const auto whole = forward_of(s, bias, relu);
  if (const auto source = lowering.converted_parameter(w)) {
    lowering.propose_layout(*source, backward_weights_of(s, bias).diff_weights_desc());
  }
  const RegionId from = lowering.region(x, whole.src_desc());
  const RegionId weights = lowering.region(w, whole.weights_desc());
  const RegionId added = bias ? lowering.region(node.inputs[2], bias_desc(s.y[1])) : -1;
  const RegionId to = lowering.define(y, whole.dst_desc());
  const int64_t parts = sample_parts(s, whole.src_desc(), whole.dst_desc());
  const int64_t samples = s.x[0] / parts;
  const auto pd = parts == 1 ? whole
                             : inner_product_forward(true, plain(s.dtype, s.x.with_batch(samples)),
                                                     whole.weights_desc(), bias ? bias_desc(s.y[1]) : Desc(),
                                                     plain(s.dtype, s.y.with_batch(samples)), relu);
  for (int64_t i = 0; i < parts; ++i) {
    lowering.primitive(pd, dnnl::inner_product_forward(pd),
                       {{DNNL_ARG_SRC, block_of(lowering, from, pd.src_desc(), i)},
                        {DNNL_ARG_WEIGHTS, weights},
                        {DNNL_ARG_BIAS, added},
                        {DNNL_ARG_DST, block_of(lowering, to, pd.dst_desc(), i)}});
  }
}

void lower_linear_backward_data(Lowering& lowering, const Node& node) {
  const ValueId dy = node.inputs[0];
  const ValueId w = node.inputs[1];
  const ValueId dx = node.outputs[0];
  const Shapes s{lowering.type(dy).dtype, lowering.shape(dx), lowering.shape(w), lowering.shape(dy)};
  const auto pd = inner_product_backward_data(any(s.dtype, s.x), any(s.dtype, s.w), any(s.dtype, s.y),
                                              forward_of(s, false, false));
  lowering.primitive(pd, dnnl::inner_product_backward_data(pd),
                     {{DNNL_ARG_DIFF_DST, lowering.region(dy, pd.diff_dst_desc())},
                      {DNNL_ARG_WEIGHTS, lowering.region(w, pd.weights_desc())},
                      {DNNL_ARG_DIFF_SRC, lowering.define(dx, pd.diff_src_desc())}});
}

using LinearGradient = dnnl::inner_product_backward_weights::primitive_desc;

/// Whether oneDNN computes it by kernels whose threads wait for each other inside a region.
bool waits_inside(const LinearGradient& pd) {
  return std::string_view(pd.impl_info_str()).starts_with("brgemm");
}

/// A thread's part of the gradient of the weights [outputs, inputs]: features begin to end - 1 of one axis.
struct FeaturePart {
  int64_t begin, end;
  Part dw;
  LinearGradient pd;
};
struct FeatureParts {
  int axis = 0;  ///< 0: each part has some outputs; 1: some inputs
  std::vector<FeaturePart> parts;
};

bool has_plain_rows(const Shapes& s, const LinearGradient& gradient) {
  return gradient.src_desc() == plain(s.dtype, s.x) && gradient.diff_dst_desc() == plain(s.dtype, s.y);
}

/// The features of each thread; no parts if oneDNN shall divide the work. A part must be whole blocks of the
/// layout, and dense.
FeatureParts parts_of(const Shapes& s, const LinearGradient& whole, bool bias) {
  const int64_t threads = omp_get_max_threads();
  if (threads == 1 || !waits_inside(whole) || !has_plain_rows(s, whole)) return {};
  const Desc dw = whole.diff_weights_desc();
  const Blocks blocks = blocks_of(dw);
  FeatureParts divided;
  divided.axis = blocks.counts[0] > 1 ? 0 : 1;
  const auto axis = static_cast<size_t>(divided.axis);
  const int64_t count = blocks.counts[axis];
  const bool outermost = static_cast<size_t>(blocks.strides[axis] * count) * sizeof(float) == dw.get_size();
  const bool even = count % threads == 0 || count >= 4 * threads;
  if (!outermost || !even) return {};
  const int64_t block = dw.data.padded_dims[axis] / count;
  const ForOneThread one;
  for (int64_t part = 0; part < threads; ++part) {
    const int64_t begin = block * (count * part / threads);
    const int64_t end = std::min(s.w[axis], block * (count * (part + 1) / threads));
    Shapes own = s;
    (divided.axis == 0 ? own.y : own.x) = {s.y[0], end - begin};
    own.w = {own.y[1], own.x[1]};
    const bool with_bias = bias && (divided.axis == 0 || part == 0);
    const Part dw_part = part_along(dw, divided.axis, begin, end);
    divided.parts.push_back(
        {begin, end, dw_part,
         inner_product_backward_weights(plain(s.dtype, own.x), dw_part.desc,
                                        with_bias ? bias_desc(own.y[1]) : Desc(), plain(s.dtype, own.y),
                                        forward_of(own, with_bias, false))});
    if (!waits_inside(divided.parts.back().pd)) return {};
  }
  return divided;
}

/// Copies columns [begin, end) of a matrix [rows, columns].
void copy_columns(const std::byte* from, int64_t rows, size_t row_bytes, size_t begin, size_t end,
                  std::byte* to) {
  for (int64_t row = 0; row < rows; ++row)
    std::copy_n(from + static_cast<size_t>(row) * row_bytes + begin, end - begin,
                to + static_cast<size_t>(row) * (end - begin));
}

struct LinearRegions {
  RegionId x, dy, dw, db;  ///< db: -1 without a bias
};

/// Each thread computes the gradient of some features, from its columns of dy or x.
void lower_features(Lowering& lowering, const FeatureParts& divided, const LinearRegions& whole) {
  const bool by_outputs = divided.axis == 0;
  const RegionId source = by_outputs ? whole.dy : whole.x;
  ThreadParts parts(lowering);
  ThreadParts::Around around{{source}, {}, {}, {}};
  for (const FeaturePart& part : divided.parts) {
    LinearRegions own = whole;
    const Desc columns = by_outputs ? part.pd.diff_dst_desc() : part.pd.src_desc();
    around.writes.push_back((by_outputs ? own.dy : own.x) = lowering.temporary(columns));
    own.dw = lowering.view(whole.dw, part.dw.desc, part.dw.shift);
    const Desc bias = part.pd.diff_bias_desc();
    if (bias.is_zero()) own.db = -1;
    if (own.db >= 0 && by_outputs)
      own.db = lowering.view(whole.db, bias, static_cast<size_t>(part.begin) * sizeof(float));
    parts.add(part.pd, dnnl::inner_product_backward_weights(part.pd),
              {{DNNL_ARG_SRC, own.x},
               {DNNL_ARG_DIFF_DST, own.dy},
               {DNNL_ARG_DIFF_WEIGHTS, own.dw},
               {DNNL_ARG_DIFF_BIAS, own.db}});
  }
  const Desc layout = lowering.layout_of(source);
  const int64_t rows = layout.dims()[0];
  const size_t row_bytes = layout.get_size() / static_cast<size_t>(rows);
  const size_t item = dnnl::memory::data_type_size(layout.data_type());
  std::vector<std::pair<size_t, size_t>> columns;
  for (const FeaturePart& part : divided.parts)
    columns.emplace_back(static_cast<size_t>(part.begin) * item, static_cast<size_t>(part.end) * item);
  around.before = [=](const Pointers& reads, const Pointers& writes, size_t part) {
    copy_columns(reads.get<const std::byte>(0), rows, row_bytes, columns[part].first, columns[part].second,
                 writes.get<std::byte>(part));
  };
  parts.lower(around);
}

/// From this number of samples on, a product followed by a reorder is faster than the gradient's own kernels.
constexpr int64_t kSamplesOfProduct = 256;

/// dw = dyᵀ · x as a matrix product; db = the sums of dy's columns.
void lower_gradient_as_product(Lowering& lowering, const Shapes& s, const LinearRegions& regions) {
  const Desc transposed({s.y[1], s.y[0]}, data_type(s.dtype), dnnl::memory::dims{1, s.y[1]});
  const auto pd = matrix_product(transposed, plain(s.dtype, s.x), plain(DType::f32, s.w));
  const RegionId product = lowering.temporary(pd.dst_desc());
  lowering.primitive(pd, dnnl::matmul(pd),
                     {{DNNL_ARG_SRC, lowering.view(regions.dy, transposed)},
                      {DNNL_ARG_WEIGHTS, regions.x},
                      {DNNL_ARG_DST, product}});
  lowering.reorder(product, regions.dw);
  if (regions.db < 0) return;
  lowering.function({regions.dy}, {regions.db}, [=](const Pointers& p) {
    const auto rows = s.y[0];
    const auto columns = s.y[1];
    parallel_for(columns, std::max<int64_t>(kColumnSumsAThread, kSummandsAThread / rows),
                 [&](int64_t begin, int64_t end) {
                   float* sums = p.get<float>(1) + begin;
                   std::fill_n(sums, end - begin, 0.0F);
                   if (s.dtype == DType::f32) {
                     add_columns(p.get<const float>(0) + begin, {rows, end - begin, columns}, sums);
                   } else {
                     add_columns(p.get<const uint16_t>(0) + begin, {rows, end - begin, columns}, sums);
                   }
                 });
  });
}

void lower_linear_backward_weights(Lowering& lowering, const Node& node) {
  const ValueId x = node.inputs[0];
  const ValueId dy = node.inputs[1];
  const ValueId dw = node.outputs[0];
  const bool bias = node.attributes.flag("bias");
  const Shapes s{lowering.type(x).dtype, lowering.shape(x), lowering.shape(dw), lowering.shape(dy)};
  const auto pd = backward_weights_of(s, bias);
  const LinearRegions regions{lowering.region(x, pd.src_desc()), lowering.region(dy, pd.diff_dst_desc()),
                              lowering.define(dw, pd.diff_weights_desc()),
                              bias ? lowering.define(node.outputs[1], bias_desc(s.y[1])) : -1};
  if (waits_inside(pd) && has_plain_rows(s, pd) && s.x[0] >= kSamplesOfProduct)
    return lower_gradient_as_product(lowering, s, regions);
  const FeatureParts divided = parts_of(s, pd, bias);
  if (!divided.parts.empty()) return lower_features(lowering, divided, regions);
  lowering.primitive(pd, dnnl::inner_product_backward_weights(pd),
                     {{DNNL_ARG_SRC, regions.x},
                      {DNNL_ARG_DIFF_DST, regions.dy},
                      {DNNL_ARG_DIFF_WEIGHTS, regions.dw},
                      {DNNL_ARG_DIFF_BIAS, regions.db}});
}

}  // namespace

void register_linear(Kernels& kernels) {
  kernels.add("linear", lower_linear);
  kernels.add("linear_backward_data", lower_linear_backward_data);
  kernels.add("linear_backward_weights", lower_linear_backward_weights);
}

}  // namespace telar::cpu
