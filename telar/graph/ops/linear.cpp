#include "telar/graph/ops/linear.h"

#include "telar/core/error.h"
#include "telar/graph/autodiff.h"

namespace telar {

namespace {

class LinearBackwardDataOp final : public Op {
 public:
  std::string_view name() const override { return "linear_backward_data"; }
  bool bf16() const override { return true; }
  // inputs: dy [N, O], w [O, I]
  std::vector<TensorType> infer(const std::vector<TensorType>& inputs, const Attributes&) const override {
    return {{inputs[0].dtype, {inputs[0].shape[0], inputs[1].shape[1]}}};
  }
  int64_t multiply_adds(const std::vector<TensorType>& inputs, const std::vector<TensorType>&,
                        const Attributes&) const override {
    return product_of({inputs[0].shape.elements(), inputs[1].shape[1]});
  }
};

class LinearBackwardWeightsOp final : public Op {
 public:
  std::string_view name() const override { return "linear_backward_weights"; }
  bool bf16() const override { return true; }
  // inputs: x [N, I], dy [N, O]; outputs: dw [O, I] f32, and db [O] f32 when "bias"
  std::vector<TensorType> infer(const std::vector<TensorType>& inputs,
                                const Attributes& attributes) const override {
    const int64_t out = inputs[1].shape[1];
    std::vector<TensorType> types{{DType::f32, {out, inputs[0].shape[1]}}};
    if (attributes.flag("bias")) types.push_back({DType::f32, {out}});
    return types;
  }
  int64_t multiply_adds(const std::vector<TensorType>& inputs, const std::vector<TensorType>&,
                        const Attributes&) const override {
    return product_of({inputs[0].shape.elements(), inputs[1].shape[1]});
  }
};

const LinearBackwardDataOp kLinearBackwardData;
const LinearBackwardWeightsOp kLinearBackwardWeights;

class LinearOp final : public Op {
 public:
  std::string_view name() const override { return "linear"; }
  bool bf16() const override { return true; }
  ReluFusion relu_fusion() const override { return ReluFusion::takes_relu; }
  bool is_weighted_sum(const Attributes& /*attributes*/) const override { return true; }
  std::vector<TensorType> infer(const std::vector<TensorType>& inputs, const Attributes&) const override {
    const TensorType& x = inputs[0];
    const TensorType& w = inputs[1];
    if (x.shape.rank() != 2 || w.shape.rank() != 2 || x.shape[1] != w.shape[1]) {
      throw user_error("linear: input {} does not fit weight {}; the input must be [N, {}]", x.shape.str(),
                       w.shape.str(), w.shape.rank() == 2 ? w.shape[1] : 0);
    }
    if (x.dtype != w.dtype) throw user_error("linear: input is {} but weight {}", x.str(), w.str());
    if (inputs[2].shape.rank() != 0 && inputs[2].shape != Shape{w.shape[0]}) {
      throw user_error("linear: bias {} does not fit weight {}; it must be [{}]", inputs[2].shape.str(),
                       w.shape.str(), w.shape[0]);
    }
    return {{x.dtype, {x.shape[0], w.shape[0]}}};
  }
  void gradient(GradientContext& context) const override {
    GraphBuilder& builder = context.builder();
    const ValueId dy = context.output_gradient(0);
    if (context.needs(1) || context.needs(2)) {
      const auto gradients = builder.add(kLinearBackwardWeights, {context.input(0), dy},
                                         {{"bias", Attribute(context.needs(2))}});
      context.set(1, gradients[0]);
      if (context.needs(2)) context.set(2, gradients[1]);
    }
    if (context.needs(0)) context.set(0, builder.add1(kLinearBackwardData, {dy, context.input(1)}));
  }
  int64_t multiply_adds(const std::vector<TensorType>& inputs, const std::vector<TensorType>&,
                        const Attributes&) const override {
    return product_of({inputs[0].shape.elements(), inputs[1].shape[0]});
  }
};

const LinearOp kLinear;

}  // namespace

ValueId linear(GraphBuilder& builder, ValueId x, ValueId w, ValueId b) {
  return builder.add1(kLinear, {x, w, b});
}

}  // namespace telar
