#include "telar/device/cuda/check.h"
#include "telar/device/cuda/kernels/convolution.h"
#include "telar/device/cuda/kernels/kernel_table.h"
#include "telar/device/cuda/kernels/reorder.h"
#include "telar/device/cuda/loops/activation.h"
#include "telar/device/cuda/loops/channel_bias.h"
#include "telar/device/cuda/loops/channel_sums.h"

namespace telar::cuda {

namespace {

void add_convolution(Lowering& lowering, const std::shared_ptr<Convolution>& convolution,
                     const std::vector<SlotId>& reads, SlotId result) {
  lowering.add(
      reads, {result, lowering.temporary(convolution->workspace())},
      [convolution](const Pointers& p) { convolution->run(p); },
      [convolution](const Pointers& p) { convolution->choose(p); });
}

/// y ← y + bias, and then ReLU, where cuDNN leaves them to us.
void finish_in_place(Lowering& lowering, ValueId bias, bool relu, ValueId y, SlotId result) {
  const cudaStream_t stream = lowering.stream();
  const DType dtype = lowering.dtype(y);
  const Shape& shape = lowering.shape(y);
  if (bias == kNoValue) {
    lowering.add({}, {result}, [=, count = shape.elements()](const Pointers& p) {
      check(activate(Activation::relu, p[0], p[0], dtype, count, stream), "the ReLU of a convolution");
    });
    return;
  }
  lowering.add(
      {lowering.plain_slot(bias)}, {result},
      [=, images = shape[0], channels = shape[1], pixels = shape[2] * shape[3],
       last = lowering.layout_of(result) == Layout::channels_last](const Pointers& p) {
        check(add_channel_bias(p[1], dtype, p[0], DType::f32, relu, images, channels, pixels, last, stream),
              "the bias of a convolution");
      });
}

/// db[o] = Σ dy[n, o, h, w].
void sum_bias_gradient(Lowering& lowering, SlotId dy, const TensorType& type, ValueId db) {
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

}  // namespace

void lower_conv2d(Lowering& lowering, const Node& node) {
  const ValueId x = node.inputs[0];
  const ValueId w = node.inputs[1];
  const ValueId bias = node.inputs[2];
  const ValueId y = node.outputs[0];
  const bool biased = bias != kNoValue;
  const bool relu = node.attributes.text_or("activation", "") == "relu";
  std::vector<ConvolutionForm> forms;
  for (const Layout layout : convolution_layouts(lowering, lowering.dtype(x))) {
    ConvolutionForm form{Direction::forward, lowering.type(x), lowering.type(w), lowering.type(y), layout};
    if (biased || relu) {
      forms.push_back(form);
      forms.back().bias = biased;
      forms.back().relu = relu;
    }
    forms.push_back(form);
  }
  const auto convolution = find_convolution(lowering, node, forms);
  const ConvolutionForm& form = convolution->form();
  std::vector<SlotId> reads{lowering.slot(x, form.layout), lowering.slot(w, form.layout)};
  if (form.bias) reads.push_back(lowering.plain_slot(bias));
  const SlotId result = lowering.define(y, form.layout);
  add_convolution(lowering, convolution, reads, result);
  const bool finished = form.bias == biased && form.relu == relu;
  if (!finished) finish_in_place(lowering, bias, relu, y, result);
}

void lower_conv2d_backward_data(Lowering& lowering, const Node& node) {
  const ValueId dy = node.inputs[0];
  const ValueId w = node.inputs[1];
  const ValueId dx = node.outputs[0];
  std::vector<ConvolutionForm> forms;
  for (const Layout layout : convolution_layouts(lowering, lowering.dtype(dy)))
    forms.push_back(
        {Direction::backward_data, lowering.type(dx), lowering.type(w), lowering.type(dy), layout});
  const auto convolution = find_convolution(lowering, node, forms);
  const Layout layout = convolution->form().layout;
  add_convolution(lowering, convolution, {lowering.slot(dy, layout), lowering.slot(w, layout)},
                  lowering.define(dx, layout));
}

void lower_conv2d_backward_weights(Lowering& lowering, const Node& node) {
  const ValueId x = node.inputs[0];
  const ValueId dy = node.inputs[1];
  const ValueId dw = node.outputs[0];
  std::vector<ConvolutionForm> forms;
  for (const Layout layout : convolution_layouts(lowering, lowering.dtype(dy))) {
    ConvolutionForm form{Direction::backward_weights, lowering.type(x), lowering.type(dw), lowering.type(dy),
                         layout};
    forms.push_back(form);
    // Not every engine for bf16 (those with groups) writes f32; sums are in f32 all the same.
    form.w.dtype = lowering.dtype(dy);
    if (form.w.dtype != DType::f32) forms.push_back(form);
  }
  const auto convolution = find_convolution(lowering, node, forms);
  const ConvolutionForm& form = convolution->form();
  const SlotId gradient = lowering.slot(dy, form.layout);
  const std::vector<SlotId> reads{lowering.slot(x, form.layout), gradient};
  const SlotId result = lowering.define(dw, form.layout);
  if (form.w.dtype == DType::f32) {
    add_convolution(lowering, convolution, reads, result);
  } else {
    const SlotId rounded = lowering.temporary(bytes_of(form.w));
    add_convolution(lowering, convolution, reads, rounded);
    lowering.add({rounded}, {result}, conversion(lowering.gpu(), form.w, DType::f32));
  }
  if (node.attributes.flag("bias")) sum_bias_gradient(lowering, gradient, lowering.type(dy), node.outputs[1]);
}

}  // namespace telar::cuda
