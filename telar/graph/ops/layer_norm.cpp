#include "telar/graph/ops/layer_norm.h"

#include "telar/core/error.h"
#include "telar/graph/autodiff.h"
#include "telar/graph/ops/axis.h"

namespace telar {

namespace {

class LayerNormBackwardOp final : public Op {
 public:
  std::string_view name() const override { return "layer_norm_backward"; }
  bool bf16() const override { return true; }
  // inputs: x, dy, gamma, mean, variance; outputs: dx, dgamma, dbeta
  std::vector<TensorType> infer(const std::vector<TensorType>& inputs, const Attributes&) const override {
    return {inputs[0], inputs[2], inputs[2]};
  }
};

const LayerNormBackwardOp kLayerNormBackward;

class LayerNormOp final : public Op {
 public:
  std::string_view name() const override { return "layer_norm"; }
  bool bf16() const override { return true; }
  // outputs: y, and mean and biased variance of each row, f32 [N, …]
  std::vector<TensorType> infer(const std::vector<TensorType>& inputs, const Attributes&) const override {
    const TensorType& x = inputs[0];
    check_floating(name(), x);
    if (x.shape.rank() < 2)
      throw user_error("layer_norm: input is {}; it must be [N, …, features]", x.shape.str());
    std::vector<int64_t> rows = x.shape.dims();
    const TensorType scale{DType::f32, {rows.back()}};
    if (inputs[1] != scale || inputs[2] != scale) {
      throw user_error("layer_norm: scale is {} and shift {}; for an input of {} both must be {}",
                       inputs[1].str(), inputs[2].str(), x.shape.str(), scale.str());
    }
    rows.pop_back();
    const TensorType statistic{DType::f32, Shape(rows)};
    return {x, statistic, statistic};
  }
  void gradient(GradientContext& context) const override {
    const auto gradients = context.builder().add(kLayerNormBackward,
                                                 {context.input(0), context.output_gradient(0),
                                                  context.input(1), context.output(1), context.output(2)},
                                                 context.attributes());
    for (size_t i = 0; i < 3; ++i) context.set(i, gradients[i]);
  }
};

const LayerNormOp kLayerNorm;

}  // namespace

ValueId layer_norm(GraphBuilder& builder, ValueId x, ValueId gamma, ValueId beta, double epsilon) {
  return builder.add(kLayerNorm, {x, gamma, beta}, {{"epsilon", epsilon}})[0];
}

}  // namespace telar
