#include "telar/graph/ops/order.h"

#include "telar/core/error.h"
#include "telar/graph/autodiff.h"
#include "telar/graph/ops/axis.h"

namespace telar {

namespace {

class OrderOp final : public Op {
 public:
  std::string_view name() const override { return "order"; }
  std::vector<TensorType> infer(const std::vector<TensorType>& inputs,
                                const Attributes& attributes) const override {
    const TensorType& x = inputs[0];
    if (x.dtype != DType::f32) throw user_error("order: input is {}; it must be f32", x.str());
    const auto axis = static_cast<size_t>(attributes.integer("axis"));
    const int64_t count = attributes.integer("count");
    if (count < 1 || count > x.shape[axis])
      throw user_error("order: {} positions of axis {} of {}; there are {}", count, axis, x.shape.str(),
                       x.shape[axis]);
    std::vector<int64_t> y = x.shape.dims();
    y[axis] = count;
    return {{DType::i32, Shape(y)}};
  }
  void gradient(GradientContext& /*context*/) const override {}
};

const OrderOp kOrder;

}  // namespace

ValueId order(GraphBuilder& builder, ValueId x, int64_t axis, int64_t count, bool descending) {
  const size_t along = axis_of(kOrder.name(), axis, builder.type(x).shape);
  return builder.add1(kOrder, {x},
                      {{"axis", static_cast<int64_t>(along)}, {"count", count}, {"descending", descending}});
}

}  // namespace telar
