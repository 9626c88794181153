#include "telar/graph/ops/reduce.h"

#include <algorithm>
#include <string>

#include "telar/core/error.h"
#include "telar/graph/autodiff.h"
#include "telar/graph/ops/axis.h"

namespace telar {

namespace {

class ReduceBackwardOp final : public Op {
 public:
  explicit ReduceBackwardOp(std::string name) : name_(std::move(name)) {}
  std::string_view name() const override { return name_; }
  bool bf16() const override { return true; }
  // inputs: dy, x, and for reduce_max also y
  std::vector<TensorType> infer(const std::vector<TensorType>& inputs, const Attributes&) const override {
    return {inputs[1]};
  }

 private:
  std::string name_;
};

class ReduceOp final : public Op {
 public:
  ReduceOp(std::string name, bool gradient_needs_result)
      : name_(std::move(name)),
        gradient_needs_result_(gradient_needs_result),
        backward_(name_ + "_backward") {}
  std::string_view name() const override { return name_; }
  bool bf16() const override { return true; }
  WholeNumbers whole_numbers() const override { return WholeNumbers::keeps; }

  std::vector<TensorType> infer(const std::vector<TensorType>& inputs,
                                const Attributes& attributes) const override {
    const Shape& x = inputs[0].shape;
    check_floating(name_, inputs[0]);
    const auto& axes = attributes.integers("axes");
    std::vector<int64_t> y;
    for (size_t i = 0; i < x.rank(); ++i) {
      if (std::find(axes.begin(), axes.end(), static_cast<int64_t>(i)) == axes.end()) {
        y.push_back(x[i]);
      } else if (attributes.flag("keep_dims")) {
        y.push_back(1);
      }
    }
    if (y.empty()) y.push_back(1);
    return {{inputs[0].dtype, Shape(y)}};
  }

  void gradient(GradientContext& context) const override {
    std::vector<ValueId> inputs{context.output_gradient(0), context.input(0)};
    if (gradient_needs_result_) inputs.push_back(context.output(0));
    context.set(0, context.builder().add1(backward_, inputs, context.attributes()));
  }

 private:
  std::string name_;
  bool gradient_needs_result_;
  ReduceBackwardOp backward_;
};

const ReduceOp kSum("reduce_sum", false);
const ReduceOp kMean("reduce_mean", false);
const ReduceOp kMax("reduce_max", true);

ValueId reduce(GraphBuilder& builder, const ReduceOp& op, ValueId x, const std::vector<int64_t>& axes,
               bool keep_dims) {
  const Shape shape = builder.type(x).shape;
  std::vector<int64_t> sorted;
  for (const int64_t axis : axes) sorted.push_back(static_cast<int64_t>(axis_of(op.name(), axis, shape)));
  if (axes.empty()) {
    for (size_t i = 0; i < shape.rank(); ++i) sorted.push_back(static_cast<int64_t>(i));
  }
  std::sort(sorted.begin(), sorted.end());
  if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end()) {
    throw user_error("{}: an axis of {} is named twice; name each once", op.name(), shape.str());
  }
  return builder.add1(op, {x}, {{"axes", sorted}, {"keep_dims", keep_dims}});
}

}  // namespace

ValueId reduce_sum(GraphBuilder& builder, ValueId x, const std::vector<int64_t>& axes, bool keep_dims) {
  return reduce(builder, kSum, x, axes, keep_dims);
}
ValueId reduce_mean(GraphBuilder& builder, ValueId x, const std::vector<int64_t>& axes, bool keep_dims) {
  return reduce(builder, kMean, x, axes, keep_dims);
}
ValueId reduce_max(GraphBuilder& builder, ValueId x, const std::vector<int64_t>& axes, bool keep_dims) {
  return reduce(builder, kMax, x, axes, keep_dims);
}

}  // namespace telar
