#include "telar/graph/ops/batch_norm.h"

#include "telar/core/error.h"
#include "telar/graph/autodiff.h"
#include "telar/graph/ops/arithmetic.h"
#include "telar/graph/ops/constant.h"
#include "telar/graph/ops/convert.h"
#include "telar/graph/ops/reduce.h"

namespace telar {

namespace {

void check(std::string_view op, const std::vector<TensorType>& inputs) {
  const TensorType& x = inputs[0];
  if (x.shape.rank() != 4 && x.shape.rank() != 2) {
    throw user_error("{}: input is {}; it must be [N, C, H, W] or [N, C]", op, x.shape.str());
  }
  for (size_t i = 1; i < inputs.size(); ++i) {
    if (inputs[i] != TensorType{DType::f32, {x.shape[1]}}) {
      throw user_error("{}: scale, shift and statistics must be f32 [{}] for an input of {}, not {}", op,
                       x.shape[1], x.shape.str(), inputs[i].str());
    }
  }
}

class BatchNormBackwardOp final : public Op {
 public:
  std::string_view name() const override { return "batch_norm_backward"; }
  bool bf16() const override { return true; }
  ReluFusion relu_fusion() const override { return ReluFusion::takes_relu_backwards; }
  // inputs: x, dy, gamma, saved (opaque: mean, biased variance, ReLU mask); outputs: dx, dgamma, dbeta
  std::vector<TensorType> infer(const std::vector<TensorType>& inputs, const Attributes&) const override {
    return {inputs[0], inputs[2], inputs[2]};
  }
};

const BatchNormBackwardOp kBatchNormBackward;

class BatchNormOp final : public Op {
 public:
  std::string_view name() const override { return "batch_norm"; }
  bool bf16() const override { return true; }
  ReluFusion relu_fusion() const override { return ReluFusion::takes_relu_forwards; }
  std::optional<Attributes> for_features(const Attributes& attributes, const TensorType& /*x*/,
                                         int64_t /*begin*/, int64_t /*end*/) const override {
    return attributes;
  }
  // outputs: y, mean, variance, saved (opaque)
  std::vector<TensorType> infer(const std::vector<TensorType>& inputs, const Attributes&) const override {
    check(name(), inputs);
    return {inputs[0], inputs[1], inputs[1], {DType::opaque, inputs[0].shape}};
  }
  void gradient(GradientContext& context) const override {
    const auto gradients = context.builder().add(
        kBatchNormBackward,
        {context.input(0), context.output_gradient(0), context.input(1), context.output(3)},
        context.attributes());
    for (size_t i = 0; i < 3; ++i) context.set(i, gradients[i]);
  }
};

class BatchNormInferenceOp final : public Op {
 public:
  std::string_view name() const override { return "batch_norm_inference"; }
  bool bf16() const override { return true; }
  std::optional<Attributes> for_features(const Attributes& attributes, const TensorType& /*x*/,
                                         int64_t /*begin*/, int64_t /*end*/) const override {
    return attributes;
  }
  ReluFusion relu_fusion() const override { return ReluFusion::takes_relu; }
  std::vector<TensorType> infer(const std::vector<TensorType>& inputs, const Attributes&) const override {
    check(name(), inputs);
    return {inputs[0]};
  }
  // The operation is affine in x, so the same operation, without mean and shift, computes dx from dy. Mean
  // and variance are given and get no gradient.
  void gradient(GradientContext& context) const override;
};

const BatchNormOp kBatchNorm;
const BatchNormInferenceOp kInference;

void BatchNormInferenceOp::gradient(GradientContext& context) const {
  if (context.needs(3) || context.needs(4))
    throw user_error(
        "batch_norm_inference has no gradient for its mean and its variance, but they depend on a parameter that is trained");
  GraphBuilder& builder = context.builder();
  const double epsilon = context.attributes().real("epsilon");
  const ValueId dy = context.output_gradient(0);
  const ValueId variance = context.input(4);
  const Shape channels = context.type(variance).shape;
  const ValueId zero = constant(builder, 0, channels);
  if (context.needs(0)) {
    context.set(0, batch_norm_inference(builder, dy, context.input(1), zero, zero, variance, epsilon));
  }
  const auto per_channel = [&](ValueId value) {
    const bool images = context.type(value).shape.rank() == 4;
    const ValueId sum =
        reduce_sum(builder, value, images ? std::vector<int64_t>{0, 2, 3} : std::vector<int64_t>{0});
    return context.type(sum).dtype == DType::f32 ? sum : convert(builder, sum, DType::f32);
  };
  if (context.needs(1)) {
    const ValueId one = constant(builder, 1, channels);
    const ValueId normalised =
        batch_norm_inference(builder, context.input(0), one, zero, context.input(3), variance, epsilon);
    context.set(1, per_channel(mul(builder, dy, normalised)));
  }
  if (context.needs(2)) context.set(2, per_channel(dy));
}

}  // namespace

std::string layer_with_vector_norm(const Graph& graph) {
  for (const Node& node : graph.nodes()) {
    if (node.op != &kBatchNorm) continue;
    const Shape& x = graph.value(node.inputs[0]).type.shape;
    if (x.elements_per_item() == x[1]) return node.scope.empty() ? std::string(node.op->name()) : node.scope;
  }
  return "";
}

BatchNormResult batch_norm(GraphBuilder& builder, ValueId x, ValueId gamma, ValueId beta, double epsilon,
                           bool biased) {
  Attributes attributes{{"epsilon", epsilon}};
  if (biased) attributes.set("biased", true);
  const auto outputs = builder.add(kBatchNorm, {x, gamma, beta}, attributes);
  return {outputs[0], outputs[1], outputs[2]};
}

ValueId batch_norm_inference(GraphBuilder& builder, ValueId x, ValueId gamma, ValueId beta, ValueId mean,
                             ValueId variance, double epsilon) {
  return builder.add1(kInference, {x, gamma, beta, mean, variance}, {{"epsilon", epsilon}});
}

}  // namespace telar
