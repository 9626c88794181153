#include "telar/graph/ops/arithmetic.h"

#include <algorithm>

#include "telar/core/error.h"
#include "telar/graph/autodiff.h"
#include "telar/graph/ops/constant.h"

namespace telar {

namespace {

Shape broadcast(std::string_view op, const TensorType& a, const TensorType& b) {
  if (a.dtype != b.dtype || (a.dtype != DType::f32 && a.dtype != DType::bf16)) {
    throw user_error("{}: operands are {} and {}; both must be f32 or both bf16", op, a.str(), b.str());
  }
  const size_t rank = std::max(a.shape.rank(), b.shape.rank());
  std::vector<int64_t> dims(rank);
  for (size_t i = 0; i < rank; ++i) {  // i counts axes from the last one
    const int64_t da = i < a.shape.rank() ? a.shape[a.shape.rank() - 1 - i] : 1;
    const int64_t db = i < b.shape.rank() ? b.shape[b.shape.rank() - 1 - i] : 1;
    if (da != db && da != 1 && db != 1) {
      throw user_error("{}: shapes {} and {} do not fit; each axis must be equal or 1", op, a.shape.str(),
                       b.shape.str());
    }
    dims[rank - 1 - i] = da == 1 ? db : da;
  }
  return Shape(dims);
}

ValueId fit(GradientContext& context, ValueId gradient, size_t input) {
  const ValueId reference = context.input(input);
  if (context.type(gradient).shape == context.type(reference).shape) return gradient;
  return sum_to(context.builder(), gradient, reference);
}

class AddOp final : public Op {
 public:
  std::string_view name() const override { return "add"; }
  bool bf16() const override { return true; }
  WholeNumbers whole_numbers() const override { return WholeNumbers::keeps; }
  std::optional<Attributes> for_features(const Attributes& attributes, const TensorType& /*x*/,
                                         int64_t /*begin*/, int64_t /*end*/) const override {
    return attributes;
  }
  bool bf16_vectors() const override { return true; }
  ReluFusion relu_fusion() const override { return ReluFusion::takes_relu; }
  std::vector<TensorType> infer(const std::vector<TensorType>& inputs, const Attributes&) const override {
    return {{inputs[0].dtype, broadcast("add", inputs[0], inputs[1])}};
  }
  void gradient(GradientContext& context) const override {
    for (size_t i = 0; i < 2; ++i) {
      if (context.needs(i)) context.set(i, fit(context, context.output_gradient(0), i));
    }
  }
};

class MulOp final : public Op {
 public:
  std::string_view name() const override { return "mul"; }
  bool bf16() const override { return true; }
  WholeNumbers whole_numbers() const override { return WholeNumbers::keeps; }
  bool bf16_vectors() const override { return true; }
  std::vector<TensorType> infer(const std::vector<TensorType>& inputs, const Attributes&) const override {
    return {{inputs[0].dtype, broadcast("mul", inputs[0], inputs[1])}};
  }
  void gradient(GradientContext& context) const override {
    for (size_t i = 0; i < 2; ++i) {
      if (!context.needs(i)) continue;
      const ValueId dy = context.output_gradient(0);
      const ValueId other = context.input(1 - i);
      // A product with ones repeats elements.
      const bool repeats = is_one(context.builder().graph(), other);
      context.set(i, fit(context, repeats ? dy : mul(context.builder(), dy, other), i));
    }
  }
};

class ScaleOp final : public Op {
 public:
  std::string_view name() const override { return "scale"; }
  std::optional<Attributes> for_features(const Attributes& attributes, const TensorType& /*x*/,
                                         int64_t /*begin*/, int64_t /*end*/) const override {
    return attributes;
  }
  bool bf16() const override { return true; }
  WholeNumbers whole_numbers() const override { return WholeNumbers::keeps; }
  std::vector<TensorType> infer(const std::vector<TensorType>& inputs, const Attributes&) const override {
    return {inputs[0]};
  }
  void gradient(GradientContext& context) const override {
    context.set(0, scale(context.builder(), context.output_gradient(0), context.attributes().real("factor")));
  }
};

class SumToOp final : public Op {
 public:
  std::string_view name() const override { return "sum_to"; }
  bool bf16() const override { return true; }
  std::vector<TensorType> infer(const std::vector<TensorType>& inputs, const Attributes&) const override {
    return {{inputs[0].dtype, inputs[1].shape}};
  }
};

const AddOp kAdd;
const MulOp kMul;
const ScaleOp kScale;
const SumToOp kSumTo;

}  // namespace

ValueId add(GraphBuilder& builder, ValueId a, ValueId b) { return builder.add1(kAdd, {a, b}); }
ValueId mul(GraphBuilder& builder, ValueId a, ValueId b) { return builder.add1(kMul, {a, b}); }
ValueId scale(GraphBuilder& builder, ValueId x, double factor) {
  return builder.add1(kScale, {x}, {{"factor", factor}});
}
ValueId sum_to(GraphBuilder& builder, ValueId x, ValueId reference) {
  return builder.add1(kSumTo, {x, reference});
}

}  // namespace telar
