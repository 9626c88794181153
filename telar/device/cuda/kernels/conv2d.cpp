#include "telar/device/cuda/check.h"
#include "telar/device/cuda/kernels.h"
#include "telar/device/cuda/kernels/common/convolution.h"
#include "telar/device/cuda/loops/channel_sums.h"

namespace telar::cuda {

namespace {

/// `memory` maps the pointers of the operands, the result and the workspace to a ConvolutionMemory.
template <typename Memory>
void add_convolution(Lowering& lowering, const std::shared_ptr<Convolution>& convolution,
                     const std::vector<RegionId>& reads, RegionId result, const Memory& memory) {
  lowering.add(
      reads, {result, lowering.temporary(convolution->workspace())},
      [=](const Pointers& p) { convolution->run(memory(p)); },
      [=](const Pointers& p) { convolution->choose(memory(p)); });
}

/// db[o] = Σ dy[n, o, h, w].
void sum_bias_gradient(Lowering& lowering, RegionId dy, const TensorType& type, ValueId db) {
  const int64_t images = type.shape[0];
  const int64_t channels = type.shape[1];
  const int64_t pixels = type.shape[2] * type.shape[3];
  const bool last = lowering.layout_of(dy) == Layout::channels_last;
  const auto bytes = static_cast<size_t>(channel_sum_pieces(images, channels, pixels)) * sizeof(float);
  lowering.add({dy}, {lowering.define_plain(db), lowering.temporary(bytes)},
               [=, dtype = type.dtype, stream = lowering.stream()](const Pointers& p) {
                 check(sum_channels(p[0], dtype, images, channels, pixels, last, p.get<float>(2),
                                    p.get<float>(1), stream),
                       "the gradient of a convolution's bias");
               });
}

void lower_conv2d(Lowering& lowering, const Node& node) {
  const ValueId x = node.inputs[0];
  const ValueId w = node.inputs[1];
  const ValueId bias = node.inputs[2];
  const ValueId y = node.outputs[0];
  ConvolutionForm wanted{
      .direction = Direction::forward, .x = lowering.type(x), .w = lowering.type(w), .y = lowering.type(y)};
  if (bias != kNoValue) wanted.bias = DType::f32;
  wanted.relu = node.attributes.text_or("activation", "") == "relu";
  const auto convolution = find_convolution(lowering, node, wanted);
  const Layout layout = convolution->layout();
  std::vector<RegionId> reads{lowering.region(x, layout), lowering.region(w, layout)};
  if (bias == kNoValue) {
    add_convolution(lowering, convolution, reads, lowering.define(y, layout), [](const Pointers& p) {
      return ConvolutionMemory{.x = p[0], .w = p[1], .y = p[2], .workspace = p[3]};
    });
    return;
  }
  reads.push_back(lowering.plain_region(bias));
  add_convolution(lowering, convolution, reads, lowering.define(y, layout), [](const Pointers& p) {
    return ConvolutionMemory{.x = p[0], .w = p[1], .y = p[3], .bias = p[2], .workspace = p[4]};
  });
}

void lower_conv2d_backward_data(Lowering& lowering, const Node& node) {
  const ValueId dy = node.inputs[0];
  const ValueId w = node.inputs[1];
  const ValueId dx = node.outputs[0];
  const auto convolution = find_convolution(
      lowering, node, {Direction::backward_data, lowering.type(dx), lowering.type(w), lowering.type(dy)});
  const Layout layout = convolution->layout();
  add_convolution(lowering, convolution, {lowering.region(dy, layout), lowering.region(w, layout)},
                  lowering.define(dx, layout), [](const Pointers& p) {
                    return ConvolutionMemory{.x = p[2], .w = p[1], .y = p[0], .workspace = p[3]};
                  });
}

void lower_conv2d_backward_weights(Lowering& lowering, const Node& node) {
  const ValueId x = node.inputs[0];
  const ValueId dy = node.inputs[1];
  const ValueId dw = node.outputs[0];
  const auto convolution = find_convolution(
      lowering, node, {Direction::backward_weights, lowering.type(x), lowering.type(dw), lowering.type(dy)});
  const Layout layout = convolution->layout();
  const RegionId gradient = lowering.region(dy, layout);
  add_convolution(lowering, convolution, {lowering.region(x, layout), gradient}, lowering.define(dw, layout),
                  [](const Pointers& p) {
                    return ConvolutionMemory{.x = p[0], .w = p[2], .y = p[1], .workspace = p[3]};
                  });
  if (node.attributes.flag("bias")) sum_bias_gradient(lowering, gradient, lowering.type(dy), node.outputs[1]);
}

}  // namespace

void register_conv2d(Kernels& kernels) {
  kernels.add("conv2d", lower_conv2d);
  kernels.add("conv2d_backward_data", lower_conv2d_backward_data);
  kernels.add("conv2d_backward_weights", lower_conv2d_backward_weights);
}

}  // namespace telar::cuda
