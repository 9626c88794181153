#include <omp.h>

#include <string_view>

#include "telar/device/cpu/kernels.h"
#include "telar/device/cpu/kernels/common/depthwise_gradient.h"
#include "telar/device/cpu/kernels/common/kernel_taps.h"
#include "telar/device/cpu/kernels/common/thread_parts.h"
#include "telar/device/cpu/kernels/common/winograd.h"
#include "telar/device/cpu/parallel.h"
#include "telar/device/cpu/primitives.h"

namespace telar::cpu {

namespace {

/// oneDNN stores groups as a leading axis of the weights: [O, C/g, KH, KW] is [g, O/g, C/g, KH, KW].
Shape grouped(const Shape& w, int64_t groups, const Shape& taps) {
  if (groups == 1) return {w[0], w[1], taps[0], taps[1]};
  return {groups, w[0] / groups, w[1], taps[0], taps[1]};
}

/// The convolution of a node, with the kernel taps that touch the image.
struct Convolution {
  DType dtype;
  Shape x, y;
  Shape w;  ///< with groups, and these taps only
  KernelTaps taps;

  Convolution(const Lowering& lowering, const Node& node, ValueId x_value, ValueId w_value, ValueId y_value)
      : dtype(lowering.type(node.inputs[0]).dtype),
        x(lowering.shape(x_value)),
        y(lowering.shape(y_value)),
        taps(taps_of(node.attributes, lowering.shape(w_value))) {
    w = grouped(lowering.shape(w_value), node.attributes.integer("groups"), taps.count);
    taps.shape.winograd =
        node.attributes.flag_or("winograd", false) && winograd_pays({dtype, x, w, y}, taps.shape);
  }

  dnnl::convolution_forward::primitive_desc forward(bool bias, bool relu) const {
    return convolution_forward(true, any(dtype, x), any(dtype, w), bias ? bias_desc(y[1]) : Desc(),
                               any(dtype, y), taps.shape, relu);
  }
  dnnl::convolution_backward_data::primitive_desc backward_data() const {
    return convolution_backward_data(any(dtype, x), any(dtype, w), any(dtype, y), taps.shape,
                                     forward(false, false));
  }
  dnnl::convolution_backward_weights::primitive_desc backward_weights(bool bias) const {
    return convolution_backward_weights(any(dtype, x), any(DType::f32, w), bias ? bias_desc(y[1]) : Desc(),
                                        any(dtype, y), taps.shape, forward(bias, false));
  }
  /// Of some samples, in given layouts.
  dnnl::convolution_backward_weights::primitive_desc backward_weights(const Desc& some_x, const Desc& dw,
                                                                      bool bias, const Desc& some_dy) const {
    const Desc db = bias ? bias_desc(y[1]) : Desc();
    const auto some = convolution_forward(true, some_x, any(dtype, w), db, some_dy, taps.shape, false);
    return convolution_backward_weights(some_x, dw, db, some_dy, taps.shape, some);
  }
  /// Whether each channel has a kernel of its own, for whose gradient oneDNN has no kernel.
  bool needs_depthwise_gradient(const dnnl::convolution_backward_weights::primitive_desc& pd) const {
    return dtype == DType::f32 && w.rank() == 5 && w[0] == x[1] && w[1] == 1 &&
           std::string_view(pd.impl_info_str()).find("jit_dw") == std::string_view::npos;
  }
  /// The layout of the weights, with all taps, that their gradient uses.
  Desc weights_layout(bool bias) const {
    const auto pd = backward_weights(bias);
    const Desc made = needs_depthwise_gradient(pd) ? plain(DType::f32, w) : pd.diff_weights_desc();
    return taps.cropped() ? tap_by_tap(made, taps.all) : made;
  }

 private:
  KernelTaps taps_of(const Attributes& attributes, const Shape& weights) const {
    const auto padding = attributes.integers("padding");
    return taps_that_meet({x[2], x[3]}, {weights[2], weights[3]}, {y[2], y[3]},
                          {attributes.integers("stride"), attributes.integers("dilation"), padding, padding});
  }
};

/// The weights in the layout that the primitive needs.
RegionId weights_region(Lowering& lowering, ValueId w, const Convolution& convolution, const Desc& wanted) {
  if (!convolution.taps.cropped()) return lowering.region(w, wanted);
  const ValueId stored = lowering.converted_parameter(w).value_or(w);
  return cropped_weights(lowering, lowering.region(stored), convolution.taps, wanted);
}

void lower_conv2d(Lowering& lowering, const Node& node) {
  const ValueId x = node.inputs[0];
  const ValueId w = node.inputs[1];
  const ValueId y = node.outputs[0];
  const bool bias = node.inputs[2] != kNoValue;
  const Convolution convolution(lowering, node, x, w, y);
  const auto pd = convolution.forward(bias, node.attributes.text_or("activation", "") == "relu");
  const auto source = lowering.converted_parameter(w);
  if (source || convolution.taps.cropped()) {
    lowering.propose_layout(source.value_or(w), convolution.weights_layout(bias));
  }
  Arguments arguments{{DNNL_ARG_SRC, lowering.region(x, pd.src_desc())},
                      {DNNL_ARG_WEIGHTS, weights_region(lowering, w, convolution, pd.weights_desc())}};
  if (bias) {
    arguments.emplace_back(DNNL_ARG_BIAS, lowering.region(node.inputs[2], bias_desc(convolution.y[1])));
  }
  arguments.emplace_back(DNNL_ARG_DST, lowering.define(y, pd.dst_desc()));
  lowering.primitive(pd, dnnl::convolution_forward(pd), std::move(arguments));
}

void lower_conv2d_backward_data(Lowering& lowering, const Node& node) {
  const ValueId dy = node.inputs[0];
  const ValueId w = node.inputs[1];
  const ValueId dx = node.outputs[0];
  const Convolution convolution(lowering, node, dx, w, dy);
  const auto pd = convolution.backward_data();
  // A transposed convolution reads its weights here first.
  if (const auto source = lowering.converted_parameter(w))
    lowering.propose_layout(*source, convolution.weights_layout(false));
  lowering.primitive(pd, dnnl::convolution_backward_data(pd),
                     {{DNNL_ARG_DIFF_DST, lowering.region(dy, pd.diff_dst_desc())},
                      {DNNL_ARG_WEIGHTS, weights_region(lowering, w, convolution, pd.weights_desc())},
                      {DNNL_ARG_DIFF_SRC, lowering.define(dx, pd.diff_src_desc())}});
}

using ConvolutionGradient = dnnl::convolution_backward_weights::primitive_desc;

/// Whether oneDNN has a kernel of its own for AVX-512, whose threads may wait for each other inside a region.
bool is_avx512(const ConvolutionGradient& pd) {
  return std::string_view(pd.impl_info_str()).find("avx512") != std::string_view::npos;
}

/// Gradients that each thread computes from some samples; empty if oneDNN shall divide the work. Each thread
/// has sums for all weights, which must be few beside what they are computed from.
std::vector<ConvolutionGradient> gradients_of_samples(const Convolution& convolution,
                                                      const ConvolutionGradient& pd, bool bias) {
  const int64_t threads = omp_get_max_threads();
  const int64_t samples = convolution.x[0];
  const bool even = samples % threads == 0 || samples >= 4 * threads;
  const size_t sums = static_cast<size_t>(threads) * pd.diff_weights_desc().get_size();
  if (threads == 1 || !even || convolution.taps.shape.winograd || !is_avx512(pd) ||
      !batch_is_outermost(pd.src_desc()) || !batch_is_outermost(pd.diff_dst_desc()) ||
      sums > pd.src_desc().get_size() + pd.diff_dst_desc().get_size())
    return {};
  const ForOneThread one;
  std::vector<ConvolutionGradient> parts;
  for (int64_t part = 0; part < threads; ++part) {
    const int64_t count = samples * (part + 1) / threads - samples * part / threads;
    parts.push_back(convolution.backward_weights(for_batch(pd.src_desc(), count), pd.diff_weights_desc(),
                                                 bias, for_batch(pd.diff_dst_desc(), count)));
    if (!is_avx512(parts.back())) return {};
  }
  return parts;
}

struct ConvolutionRegions {
  RegionId x, dy, dw, db;  ///< db: -1 without a bias
};

/// Adds the other parts' sums to those of part 0, in the order of the parts.
void add_sums(float* sum, const std::vector<const float*>& others, int64_t count) {
  constexpr int64_t kGrain = 4096;
  parallel_for(count, kGrain, [&](int64_t begin, int64_t end) {
    for (const float* other : others)
      for (int64_t i = begin; i < end; ++i) sum[i] += other[i];
  });
}

/// Each thread computes the gradient of some samples; then the gradients are added.
void lower_samples(Lowering& lowering, const std::vector<ConvolutionGradient>& gradients,
                   const ConvolutionRegions& whole) {
  const bool bias = whole.db >= 0;
  ThreadParts parts(lowering);
  ThreadParts::Around around{{}, {whole.dw}, {}, {}};
  if (bias) around.writes.push_back(whole.db);
  size_t x_shift = 0;
  size_t dy_shift = 0;
  for (const ConvolutionGradient& pd : gradients) {
    ConvolutionRegions own = whole;
    if (&pd != &gradients.front()) {
      around.writes.push_back(own.dw = lowering.temporary(pd.diff_weights_desc()));
      if (bias) around.writes.push_back(own.db = lowering.temporary(pd.diff_bias_desc()));
    }
    parts.add(pd, dnnl::convolution_backward_weights(pd),
              {{DNNL_ARG_SRC, lowering.view(whole.x, pd.src_desc(), x_shift)},
               {DNNL_ARG_DIFF_DST, lowering.view(whole.dy, pd.diff_dst_desc(), dy_shift)},
               {DNNL_ARG_DIFF_WEIGHTS, own.dw},
               {DNNL_ARG_DIFF_BIAS, own.db}});
    x_shift += pd.src_desc().get_size();
    dy_shift += pd.diff_dst_desc().get_size();
  }
  std::vector<int64_t> counts{
      static_cast<int64_t>(gradients[0].diff_weights_desc().get_size() / sizeof(float))};
  if (bias) counts.push_back(gradients[0].diff_bias_desc().dims()[0]);
  around.after = [counts, size = gradients.size()](const Pointers& /*reads*/, const Pointers& writes) {
    for (size_t kind = 0; kind < counts.size(); ++kind) {  // weights, then the bias
      std::vector<const float*> others;
      for (size_t part = 1; part < size; ++part)
        others.push_back(writes.get<const float>(part * counts.size() + kind));
      add_sums(writes.get<float>(kind), others, counts[kind]);
    }
  };
  parts.lower(around);
}

void lower_depthwise(Lowering& lowering, const Convolution& convolution, const ConvolutionRegions& regions) {
  const DepthwiseGradient gradient(convolution.x, convolution.y, convolution.taps.count,
                                   convolution.taps.shape);
  std::vector<RegionId> writes{regions.dw};
  if (regions.db >= 0) writes.push_back(regions.db);
  lowering.function({regions.x, regions.dy}, writes, [gradient, bias = regions.db >= 0](const Pointers& p) {
    gradient(p.get<const float>(0), p.get<const float>(1), p.get<float>(2), bias ? p.get<float>(3) : nullptr);
  });
}

void lower_conv2d_backward_weights(Lowering& lowering, const Node& node) {
  const ValueId x = node.inputs[0];
  const ValueId dy = node.inputs[1];
  const ValueId dw = node.outputs[0];
  const bool bias = node.attributes.flag("bias");
  const Convolution convolution(lowering, node, x, dw, dy);
  const auto pd = convolution.backward_weights(bias);
  const bool depthwise = convolution.needs_depthwise_gradient(pd);
  const Desc x_layout = depthwise ? DepthwiseGradient::layout(convolution.x) : pd.src_desc();
  const Desc dy_layout = depthwise ? DepthwiseGradient::layout(convolution.y) : pd.diff_dst_desc();
  const Desc dw_layout = depthwise ? plain(DType::f32, convolution.w) : pd.diff_weights_desc();
  ConvolutionRegions regions{lowering.region(x, x_layout), lowering.region(dy, dy_layout), -1, -1};
  const RegionId whole = lowering.define(dw, convolution.weights_layout(bias));
  const bool cropped = convolution.taps.cropped();
  regions.dw = cropped ? cropped_gradients(lowering, whole, convolution.taps, dw_layout) : whole;
  if (bias) regions.db = lowering.define(node.outputs[1], bias_desc(convolution.y[1]));
  if (depthwise) {
    lower_depthwise(lowering, convolution, regions);
  } else if (const auto parts = gradients_of_samples(convolution, pd, bias); !parts.empty()) {
    lower_samples(lowering, parts, regions);
  } else {
    lowering.primitive(pd, dnnl::convolution_backward_weights(pd),
                       {{DNNL_ARG_SRC, regions.x},
                        {DNNL_ARG_DIFF_DST, regions.dy},
                        {DNNL_ARG_DIFF_WEIGHTS, regions.dw},
                        {DNNL_ARG_DIFF_BIAS, regions.db}});
  }
  if (cropped) spread_gradients(lowering, regions.dw, whole, convolution.taps);
}

}  // namespace

void register_conv2d(Kernels& kernels) {
  kernels.add("conv2d", lower_conv2d);
  kernels.add("conv2d_backward_data", lower_conv2d_backward_data);
  kernels.add("conv2d_backward_weights", lower_conv2d_backward_weights);
}

}  // namespace telar::cpu
