#include "telar/graph/ops/batch_norm.h"

#include "telar/core/error.h"
#include "telar/graph/autodiff.h"

namespace telar {

namespace {

void check(std::string_view op, const std::vector<TensorType>& inputs) {
  const TensorType& x = inputs[0];
  if (x.shape.rank() != 4 && x.shape.rank() != 2) {
    throw user_error("{}: input is {}, it must be [N, C, H, W] or [N, C]", op, x.shape.str());
  }
  for (size_t i = 1; i < inputs.size(); ++i) {
    if (inputs[i] != TensorType{DType::f32, {x.shape[1]}}) {
      throw user_error("{}: scale, shift and statistics must be f32 [{}] for an input of {}, not {}", op, x.shape[1],
                       x.shape.str(), inputs[i].str());
    }
  }
}

class BatchNormBackwardOp final : public Op {
 public:
  std::string_view name() const override { return "batch_norm_backward"; }
  bool bf16() const override { return true; }
  // inputs: x, dy, gamma, saved (opaque: mean, biased variance, ReLU mask); outputs: dx, dgamma, dbeta
  std::vector<TensorType> infer(const std::vector<TensorType>& inputs, const Attributes&) const override {
    return {inputs[0], inputs[2], inputs[2]};
  }
};

const BatchNormBackwardOp kBackward;

class BatchNormOp final : public Op {
 public:
  std::string_view name() const override { return "batch_norm"; }
  bool bf16() const override { return true; }
  // outputs: y, mean, unbiased variance, saved (opaque)
  std::vector<TensorType> infer(const std::vector<TensorType>& inputs, const Attributes&) const override {
    check(name(), inputs);
    return {inputs[0], inputs[1], inputs[1], {DType::opaque, inputs[0].shape}};
  }
  void gradient(GradientContext& context) const override {
    const auto gradients =
        context.builder().add(kBackward, {context.input(0), context.output_gradient(0), context.input(1), context.output(3)},
                              context.attributes());
    for (size_t i = 0; i < 3; ++i) context.set(i, gradients[i]);
  }
};

class BatchNormInferenceOp final : public Op {
 public:
  std::string_view name() const override { return "batch_norm_inference"; }
  bool bf16() const override { return true; }
  std::vector<TensorType> infer(const std::vector<TensorType>& inputs, const Attributes&) const override {
    check(name(), inputs);
    return {inputs[0]};
  }
};

const BatchNormOp kBatchNorm;
const BatchNormInferenceOp kInference;

}  // namespace

BatchNormResult batch_norm(GraphBuilder& builder, ValueId x, ValueId gamma, ValueId beta, double epsilon) {
  const auto outputs = builder.add(kBatchNorm, {x, gamma, beta}, {{"epsilon", epsilon}});
  return {outputs[0], outputs[1], outputs[2]};
}

ValueId batch_norm_inference(GraphBuilder& builder, ValueId x, ValueId gamma, ValueId beta, ValueId mean,
                             ValueId variance, double epsilon) {
  return builder.add1(kInference, {x, gamma, beta, mean, variance}, {{"epsilon", epsilon}});
}

}  // namespace telar
