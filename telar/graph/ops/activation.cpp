#include "telar/graph/ops/activation.h"

#include <string>

#include "telar/graph/autodiff.h"

namespace telar {

namespace {

class ActivationBackwardOp final : public Op {
 public:
  ActivationBackwardOp(std::string name, ReluFusion fusion) : name_(std::move(name)), fusion_(fusion) {}
  std::string_view name() const override { return name_; }
  bool bf16() const override { return true; }
  ReluFusion relu_fusion() const override { return fusion_; }
  // inputs: dy, and y (relu, sigmoid, tanh: their derivative is a function of the output) or x (gelu)
  std::vector<TensorType> infer(const std::vector<TensorType>& inputs, const Attributes&) const override {
    return {inputs[0]};
  }

 private:
  std::string name_;
  ReluFusion fusion_;
};

class ActivationOp final : public Op {
 public:
  ActivationOp(std::string name, bool backward_from_output)
      : name_(std::move(name)),
        backward_from_output_(backward_from_output),
        backward_(name_ + "_backward", is_relu() ? ReluFusion::relu_backward : ReluFusion::none) {}
  std::string_view name() const override { return name_; }
  bool bf16() const override { return true; }
  bool is_activation() const override { return true; }
  ReluFusion relu_fusion() const override { return is_relu() ? ReluFusion::relu : ReluFusion::none; }
  std::vector<TensorType> infer(const std::vector<TensorType>& inputs, const Attributes&) const override {
    return {inputs[0]};
  }
  void gradient(GradientContext& context) const override {
    const ValueId from = backward_from_output_ ? context.output(0) : context.input(0);
    context.set(0, context.builder().add1(backward_, {context.output_gradient(0), from}));
  }

 private:
  bool is_relu() const { return name_ == "relu"; }

  std::string name_;
  bool backward_from_output_;
  ActivationBackwardOp backward_;
};

const ActivationOp kRelu("relu", true);
const ActivationOp kGelu("gelu", false);
const ActivationOp kSigmoid("sigmoid", true);
const ActivationOp kTanh("tanh", true);

}  // namespace

ValueId relu(GraphBuilder& builder, ValueId x) { return builder.add1(kRelu, {x}); }
ValueId gelu(GraphBuilder& builder, ValueId x) { return builder.add1(kGelu, {x}); }
ValueId sigmoid(GraphBuilder& builder, ValueId x) { return builder.add1(kSigmoid, {x}); }
ValueId tanh(GraphBuilder& builder, ValueId x) { return builder.add1(kTanh, {x}); }

}  // namespace telar
