#include "telar/graph/ops/conv2d.h"

#include "telar/core/error.h"
#include "telar/graph/autodiff.h"
#include "telar/graph/ops/arithmetic.h"
#include "telar/graph/ops/reshape.h"

namespace telar {

namespace {

int64_t multiply_adds_of(const Shape& w, const Shape& y) {
  return product_of({y.elements(), w.elements_per_item()});
}

/// Also the transposed convolution, which therefore has a gradient.
class Conv2dBackwardDataOp final : public Op {
 public:
  std::string_view name() const override { return "conv2d_backward_data"; }
  bool bf16() const override { return true; }
  void gradient(GradientContext& context) const override;
  // inputs: dy [N, O, H', W'], w [O, C/g, KH, KW]; attribute input_size = [H, W] (ambiguous when stride > 1)
  std::vector<TensorType> infer(const std::vector<TensorType>& inputs,
                                const Attributes& attributes) const override {
    const auto& size = attributes.integers("input_size");
    const int64_t channels = inputs[1].shape[1] * attributes.integer("groups");
    return {{inputs[0].dtype, {inputs[0].shape[0], channels, size[0], size[1]}}};
  }
  int64_t multiply_adds(const std::vector<TensorType>& inputs, const std::vector<TensorType>&,
                        const Attributes&) const override {
    return multiply_adds_of(inputs[1].shape, inputs[0].shape);
  }
};

class Conv2dBackwardWeightsOp final : public Op {
 public:
  std::string_view name() const override { return "conv2d_backward_weights"; }
  bool bf16() const override { return true; }
  // inputs: x, dy; outputs: dw f32 [O, C/g, KH, KW], and db f32 [O] when "bias"
  std::vector<TensorType> infer(const std::vector<TensorType>& inputs,
                                const Attributes& attributes) const override {
    const int64_t out = inputs[1].shape[1];
    const auto& kernel = attributes.integers("kernel");
    std::vector<TensorType> types{
        {DType::f32, {out, inputs[0].shape[1] / attributes.integer("groups"), kernel[0], kernel[1]}}};
    if (attributes.flag("bias")) types.push_back({DType::f32, {out}});
    return types;
  }
  int64_t multiply_adds(const std::vector<TensorType>& inputs, const std::vector<TensorType>& outputs,
                        const Attributes&) const override {
    return multiply_adds_of(outputs[0].shape, inputs[1].shape);
  }
};

const Conv2dBackwardDataOp kBackwardData;
const Conv2dBackwardWeightsOp kBackwardWeights;

class Conv2dOp final : public Op {
 public:
  std::string_view name() const override { return "conv2d"; }
  bool bf16() const override { return true; }
  ReluFusion relu_fusion() const override { return ReluFusion::takes_relu; }
  bool has_winograd() const override { return true; }
  bool is_weighted_sum(const Attributes& attributes) const override {
    return attributes.integer("groups") == 1;
  }

  std::vector<TensorType> infer(const std::vector<TensorType>& inputs,
                                const Attributes& attributes) const override {
    const TensorType& x = inputs[0];
    const TensorType& w = inputs[1];
    const int64_t groups = attributes.integer("groups");
    if (x.shape.rank() != 4 || w.shape.rank() != 4) {
      throw user_error("conv2d: input is {} and weight {}; the input must be [N, C, H, W]", x.shape.str(),
                       w.shape.str());
    }
    if (groups < 1 || x.shape[1] % groups != 0 || w.shape[0] % groups != 0 ||
        w.shape[1] != x.shape[1] / groups) {
      throw user_error(
          "conv2d: input {} does not fit weight {} with {} groups; the input must have {} channels",
          x.shape.str(), w.shape.str(), groups, w.shape[1] * groups);
    }
    if (x.dtype != w.dtype) throw user_error("conv2d: input is {} but weight {}", x.str(), w.str());
    if (inputs[2].shape.rank() != 0 && inputs[2].shape != Shape{w.shape[0]}) {
      throw user_error("conv2d: bias {} must be [{}]", inputs[2].shape.str(), w.shape[0]);
    }
    Shape y{x.shape[0], w.shape[0], 0, 0};
    for (size_t i = 0; i < 2; ++i) {
      const int64_t reach = attributes.integers("dilation")[i] * (w.shape[2 + i] - 1) + 1;
      const int64_t room = x.shape[2 + i] + 2 * attributes.integers("padding")[i] - reach;
      if (room < 0) {
        throw user_error("conv2d: a kernel with an extent of {} does not fit an input of {} with padding {}",
                         reach, x.shape.str(), attributes.integers("padding")[i]);
      }
      y[2 + i] = room / attributes.integers("stride")[i] + 1;
    }
    return {{x.dtype, y}};
  }

  void gradient(GradientContext& context) const override {
    GraphBuilder& builder = context.builder();
    const ValueId dy = context.output_gradient(0);
    // A copy: adding a node may reallocate the graph's values.
    const Shape x = context.type(context.input(0)).shape;
    const Shape w = context.type(context.input(1)).shape;
    if (context.needs(1) || context.needs(2)) {
      const Attributes attributes = context.attributes()
                                        .with("kernel", std::vector<int64_t>{w[2], w[3]})
                                        .with("bias", Attribute(context.needs(2)));
      const auto gradients = builder.add(kBackwardWeights, {context.input(0), dy}, attributes);
      context.set(1, gradients[0]);
      if (context.needs(2)) context.set(2, gradients[1]);
    }
    if (context.needs(0)) {
      const Attributes attributes = context.attributes().with("input_size", std::vector<int64_t>{x[2], x[3]});
      context.set(0, builder.add1(kBackwardData, {dy, context.input(1)}, attributes));
    }
  }

  int64_t multiply_adds(const std::vector<TensorType>& inputs, const std::vector<TensorType>& outputs,
                        const Attributes&) const override {
    return multiply_adds_of(inputs[1].shape, outputs[0].shape);
  }
};

const Conv2dOp kConv2d;

/// Those that all operations here have.
Attributes window_of(const Attributes& attributes) {
  return {{"stride", attributes.at("stride")},
          {"padding", attributes.at("padding")},
          {"dilation", attributes.at("dilation")},
          {"groups", attributes.at("groups")}};
}

void Conv2dBackwardDataOp::gradient(GradientContext& context) const {
  GraphBuilder& builder = context.builder();
  const ValueId dy = context.output_gradient(0);
  const ValueId x = context.input(0);
  const ValueId w = context.input(1);
  const Attributes window = window_of(context.attributes());
  if (context.needs(0)) context.set(0, builder.add1(kConv2d, {dy, w, kNoValue}, window));
  if (context.needs(1)) {
    const Shape shape = context.type(w).shape;
    const Attributes attributes =
        window.with("kernel", std::vector<int64_t>{shape[2], shape[3]}).with("bias", Attribute(false));
    context.set(1, builder.add1(kBackwardWeights, {dy, x}, attributes));
  }
}

Attributes attributes_of(const Conv2dOptions& options) {
  return {{"stride", std::vector<int64_t>{options.stride_h, options.stride_w}},
          {"padding", std::vector<int64_t>{options.padding_h, options.padding_w}},
          {"dilation", std::vector<int64_t>{options.dilation_h, options.dilation_w}},
          {"groups", options.groups}};
}

}  // namespace

ValueId conv2d(GraphBuilder& builder, ValueId x, ValueId w, ValueId b, const Conv2dOptions& options) {
  return builder.add1(kConv2d, {x, w, b}, attributes_of(options));
}

ValueId conv_transpose2d(GraphBuilder& builder, ValueId x, ValueId w, ValueId b,
                         const ConvTranspose2dOptions& options) {
  const TensorType input = builder.type(x);
  const TensorType weight = builder.type(w);
  const Conv2dOptions& window = options.window;
  if (input.shape.rank() != 4 || weight.shape.rank() != 4 || weight.shape[0] != input.shape[1] ||
      weight.dtype != input.dtype || window.groups < 1 || input.shape[1] % window.groups != 0) {
    throw user_error(
        "conv_transpose2d: input {} does not fit weight {} with {} groups; they must be [N, C, H, W] and [C, O / groups, KH, KW]",
        input.str(), weight.str(), window.groups);
  }
  const Attributes attributes = attributes_of(window);
  const int64_t more[] = {options.output_padding_h, options.output_padding_w};
  std::vector<int64_t> size;
  for (size_t i = 0; i < 2; ++i) {
    const int64_t stride = attributes.integers("stride")[i];
    if (more[i] < 0 || more[i] >= stride)
      throw user_error(
          "conv_transpose2d: output padding {} with stride {}; it must be at least 0 and below the stride",
          more[i], stride);
    size.push_back(product_of({input.shape[2 + i] - 1, stride}) - 2 * attributes.integers("padding")[i] +
                   attributes.integers("dilation")[i] * (weight.shape[2 + i] - 1) + more[i] + 1);
    if (size.back() < 1)
      throw user_error("conv_transpose2d: padding {} leaves nothing of the result for an input of {}",
                       attributes.integers("padding")[i], input.shape.str());
  }
  const ValueId y = builder.add1(kBackwardData, {x, w}, attributes.with("input_size", size));
  if (b == kNoValue) return y;
  return add(builder, y, reshape(builder, b, {builder.type(y).shape[1], 1, 1}));
}

}  // namespace telar
