#include "telar/graph/ops/constant.h"

namespace telar {

namespace {

class ConstantOp final : public Op {
 public:
  std::string_view name() const override { return "constant"; }
  std::vector<TensorType> infer(const std::vector<TensorType>&, const Attributes& attributes) const override {
    return {{DType::f32, Shape(attributes.integers("shape"))}};
  }
};

const ConstantOp kConstant;

}  // namespace

ValueId constant(GraphBuilder& builder, double value, const Shape& shape) {
  return builder.add1(kConstant, {}, {{"shape", shape.dims()}, {"value", value}});
}

}  // namespace telar
