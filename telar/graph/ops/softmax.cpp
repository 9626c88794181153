#include "telar/graph/ops/softmax.h"

#include "telar/graph/autodiff.h"
#include "telar/graph/ops/axis.h"

namespace telar {

namespace {

class SoftmaxBackwardOp final : public Op {
 public:
  std::string_view name() const override { return "softmax_backward"; }
  bool bf16() const override { return true; }
  // inputs: dy, y
  std::vector<TensorType> infer(const std::vector<TensorType>& inputs, const Attributes&) const override {
    return {inputs[0]};
  }
};

const SoftmaxBackwardOp kSoftmaxBackward;

class SoftmaxOp final : public Op {
 public:
  std::string_view name() const override { return "softmax"; }
  bool bf16() const override { return true; }
  std::vector<TensorType> infer(const std::vector<TensorType>& inputs, const Attributes&) const override {
    check_floating(name(), inputs[0]);
    return {inputs[0]};
  }
  void gradient(GradientContext& context) const override {
    context.set(0, context.builder().add1(kSoftmaxBackward, {context.output_gradient(0), context.output(0)},
                                          context.attributes()));
  }
};

const SoftmaxOp kSoftmax;

}  // namespace

ValueId softmax(GraphBuilder& builder, ValueId x, int64_t axis) {
  const size_t along = axis_of(kSoftmax.name(), axis, builder.type(x).shape);
  return builder.add1(kSoftmax, {x}, {{"axis", static_cast<int64_t>(along)}});
}

}  // namespace telar
