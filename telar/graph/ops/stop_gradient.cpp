#include "telar/graph/ops/stop_gradient.h"

#include "telar/graph/autodiff.h"

namespace telar {

namespace {

class StopGradientOp final : public Op {
 public:
  std::string_view name() const override { return "stop_gradient"; }
  bool bf16() const override { return true; }
  bool is_view() const override { return true; }
  std::vector<TensorType> infer(const std::vector<TensorType>& inputs, const Attributes&) const override {
    return {inputs[0]};
  }
  void gradient(GradientContext& /*context*/) const override {}
};

const StopGradientOp kStopGradient;

}  // namespace

ValueId stop_gradient(GraphBuilder& builder, ValueId x) { return builder.add1(kStopGradient, {x}); }

}  // namespace telar
