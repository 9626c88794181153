#include "telar/graph/ops/constant.h"

#include "telar/core/error.h"
#include "telar/graph/autodiff.h"

namespace telar {

namespace {

class ConstantOp final : public Op {
 public:
  std::string_view name() const override { return "constant"; }
  std::vector<TensorType> infer(const std::vector<TensorType>&, const Attributes& attributes) const override {
    return {{DType::f32, Shape(attributes.integers("shape"))}};
  }
};

class FillOp final : public Op {
 public:
  std::string_view name() const override { return "fill"; }
  std::vector<TensorType> infer(const std::vector<TensorType>& inputs,
                                const Attributes& attributes) const override {
    if (inputs[0].shape.rank() == 0) throw user_error("fill: its input must have an axis, the samples");
    std::vector<int64_t> dims{inputs[0].shape[0]};
    const auto& item = attributes.integers("shape");
    dims.insert(dims.end(), item.begin(), item.end());
    return {{DType::f32, Shape(std::move(dims))}};
  }
  void gradient(GradientContext& /*context*/) const override {}
  bool reads_values(size_t /*input*/) const override { return false; }
};

const ConstantOp kConstant;
const FillOp kFill;

}  // namespace

ValueId constant(GraphBuilder& builder, double value, const Shape& shape) {
  return builder.add1(kConstant, {}, {{"shape", shape.dims()}, {"value", value}});
}

bool is_one(const Graph& graph, ValueId value) {
  const int32_t node = graph.value(value).node;
  if (node < 0) return false;
  const Node& made = graph.nodes()[static_cast<size_t>(node)];
  return made.op == &kConstant && made.attributes.real("value") == 1.0;
}

ValueId fill(GraphBuilder& builder, double value, ValueId batch_of, const Shape& item) {
  return builder.add1(kFill, {batch_of}, {{"shape", item.dims()}, {"value", value}});
}

}  // namespace telar
