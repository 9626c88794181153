#include "telar/graph/ops/gather.h"

#include "telar/core/error.h"
#include "telar/graph/autodiff.h"
#include "telar/graph/ops/axis.h"

namespace telar {

namespace {

size_t gathered_axis(const Attributes& attributes) { return static_cast<size_t>(attributes.integer("axis")); }

void check_types(std::string_view op, const TensorType& numbers, const TensorType& indices) {
  if (numbers.dtype != DType::f32)
    throw user_error("{}: numbers are {}; they must be f32", op, numbers.str());
  if (indices.dtype != DType::i32)
    throw user_error("{}: indices are {}; they must be i32", op, indices.str());
}

class GatherOp final : public Op {
 public:
  std::string_view name() const override { return "gather"; }
  std::vector<TensorType> infer(const std::vector<TensorType>& inputs,
                                const Attributes& attributes) const override {
    check_types(name(), inputs[0], inputs[1]);
    const size_t axis = gathered_axis(attributes);
    gather_extents(name(), inputs[0].shape, inputs[1].shape, axis);
    std::vector<int64_t> y = inputs[0].shape.dims();
    y[axis] = inputs[1].shape[axis];
    return {{DType::f32, Shape(y)}};
  }
  void gradient(GradientContext& context) const override {
    if (!context.needs(0)) return;
    const int64_t axis = context.attributes().integer("axis");
    const int64_t extent = context.type(context.input(0)).shape[gathered_axis(context.attributes())];
    context.set(0,
                scatter_add(context.builder(), context.input(1), context.output_gradient(0), axis, extent));
  }
};

class ScatterAddOp final : public Op {
 public:
  std::string_view name() const override { return "scatter_add"; }
  std::vector<TensorType> infer(const std::vector<TensorType>& inputs,
                                const Attributes& attributes) const override {
    check_types(name(), inputs[1], inputs[0]);
    const size_t axis = gathered_axis(attributes);
    gather_extents(name(), inputs[1].shape, inputs[0].shape, axis);
    if (inputs[0].shape[axis] != inputs[1].shape[axis])
      throw user_error("scatter_add: indices {} for updates {}; axis {} must be the same",
                       inputs[0].shape.str(), inputs[1].shape.str(), axis);
    std::vector<int64_t> y = inputs[1].shape.dims();
    y[axis] = attributes.integer("extent");
    return {{DType::f32, Shape(y)}};
  }
  void gradient(GradientContext& context) const override {
    if (!context.needs(1)) return;
    context.set(1, gather(context.builder(), context.output_gradient(0), context.input(0),
                          context.attributes().integer("axis")));
  }
};

const GatherOp kGather;
const ScatterAddOp kScatterAdd;

}  // namespace

ValueId gather(GraphBuilder& builder, ValueId x, ValueId indices, int64_t axis) {
  const size_t along = axis_of(kGather.name(), axis, builder.type(x).shape);
  return builder.add1(kGather, {x, indices}, {{"axis", static_cast<int64_t>(along)}});
}

ValueId scatter_add(GraphBuilder& builder, ValueId indices, ValueId updates, int64_t axis, int64_t extent) {
  const size_t along = axis_of(kScatterAdd.name(), axis, builder.type(updates).shape);
  return builder.add1(kScatterAdd, {indices, updates},
                      {{"axis", static_cast<int64_t>(along)}, {"extent", extent}});
}

}  // namespace telar
