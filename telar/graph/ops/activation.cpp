#include "telar/graph/ops/activation.h"

#include <string>

#include "telar/core/error.h"
#include "telar/graph/autodiff.h"

namespace telar {

namespace {

/// Of what the derivative of an activation is computed: of its input, or of its output, which then replaces
/// the input in memory.
enum class Slope : uint8_t { of_input, of_output };

class ActivationBackwardOp final : public Op {
 public:
  ActivationBackwardOp(std::string name, ReluFusion fusion) : name_(std::move(name)), fusion_(fusion) {}
  std::string_view name() const override { return name_; }
  bool bf16() const override { return true; }
  ReluFusion relu_fusion() const override { return fusion_; }
  // inputs: dy, and x or y (see Slope)
  std::vector<TensorType> infer(const std::vector<TensorType>& inputs, const Attributes&) const override {
    return {inputs[0]};
  }

 private:
  std::string name_;
  ReluFusion fusion_;
};

class ActivationOp final : public Op {
 public:
  ActivationOp(std::string name, Slope slope)
      : name_(std::move(name)),
        slope_(slope),
        backward_(name_ + "_backward", is_relu() ? ReluFusion::relu_backward : ReluFusion::none) {}
  std::string_view name() const override { return name_; }
  bool bf16() const override { return true; }
  bool is_activation() const override { return true; }
  ReluFusion relu_fusion() const override { return is_relu() ? ReluFusion::relu : ReluFusion::none; }
  std::optional<Attributes> for_features(const Attributes& attributes, const TensorType& /*x*/,
                                         int64_t /*begin*/, int64_t /*end*/) const override {
    return attributes;
  }
  std::vector<TensorType> infer(const std::vector<TensorType>& inputs, const Attributes&) const override {
    return {inputs[0]};
  }
  void gradient(GradientContext& context) const override {
    const ValueId from = slope_ == Slope::of_output ? context.output(0) : context.input(0);
    context.set(0, context.builder().add1(backward_, {context.output_gradient(0), from}));
  }

 private:
  bool is_relu() const { return name_ == "relu"; }

  std::string name_;
  Slope slope_;
  ActivationBackwardOp backward_;
};

const ActivationOp kActivations[] = {
    {"relu", Slope::of_output},      {"gelu", Slope::of_input},      {"sigmoid", Slope::of_output},
    {"tanh", Slope::of_output},      {"silu", Slope::of_input},      {"gelu_tanh", Slope::of_input},
    {"softplus", Slope::of_input},   {"hardswish", Slope::of_input}, {"elu", Slope::of_input},
    {"leaky_relu", Slope::of_input},
};

}  // namespace

ValueId relu(GraphBuilder& builder, ValueId x) { return activation(builder, "relu", x); }
ValueId gelu(GraphBuilder& builder, ValueId x) { return activation(builder, "gelu", x); }
ValueId sigmoid(GraphBuilder& builder, ValueId x) { return activation(builder, "sigmoid", x); }
ValueId tanh(GraphBuilder& builder, ValueId x) { return activation(builder, "tanh", x); }
ValueId silu(GraphBuilder& builder, ValueId x) { return activation(builder, "silu", x); }
ValueId gelu_tanh(GraphBuilder& builder, ValueId x) { return activation(builder, "gelu_tanh", x); }
ValueId softplus(GraphBuilder& builder, ValueId x) { return activation(builder, "softplus", x); }
ValueId hardswish(GraphBuilder& builder, ValueId x) { return activation(builder, "hardswish", x); }
ValueId elu(GraphBuilder& builder, ValueId x) { return activation(builder, "elu", x); }
ValueId leaky_relu(GraphBuilder& builder, ValueId x) { return activation(builder, "leaky_relu", x); }

ValueId activation(GraphBuilder& builder, std::string_view name, ValueId x) {
  for (const ActivationOp& op : kActivations) {
    if (op.name() == name) return builder.add1(op, {x});
  }
  throw run_error("there is no activation '{}'", name);
}

std::vector<std::string> activation_names() {
  std::vector<std::string> names;
  for (const ActivationOp& op : kActivations) names.emplace_back(op.name());
  return names;
}

}  // namespace telar
