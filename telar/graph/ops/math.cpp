#include "telar/graph/ops/math.h"

#include <numbers>

#include "telar/core/error.h"
#include "telar/graph/autodiff.h"
#include "telar/graph/ops/arithmetic.h"
#include "telar/graph/ops/constant.h"

namespace telar {

namespace {

class MathOp : public Op {
 public:
  explicit MathOp(std::string_view name) : name_(name) {}
  std::string_view name() const override { return name_; }
  std::optional<Attributes> for_features(const Attributes& attributes, const TensorType& /*x*/,
                                         int64_t /*begin*/, int64_t /*end*/) const override {
    return attributes;
  }
  std::vector<TensorType> infer(const std::vector<TensorType>& inputs, const Attributes&) const override {
    if (inputs[0].dtype != DType::f32)
      throw user_error("{}: input is {}; it must be f32", name_, inputs[0].str());
    return {inputs[0]};
  }

 private:
  std::string_view name_;
};

class ExpOp final : public MathOp {
 public:
  ExpOp() : MathOp("exp") {}
  void gradient(GradientContext& context) const override {
    context.set(0, mul(context.builder(), context.output_gradient(0), context.output(0)));
  }
};

class LogOp final : public MathOp {
 public:
  LogOp() : MathOp("log") {}
  void gradient(GradientContext& context) const override {
    context.set(0, divide(context.builder(), context.output_gradient(0), context.input(0)));
  }
};

class SinOp final : public MathOp {
 public:
  SinOp() : MathOp("sin") {}
  void gradient(GradientContext& context) const override {
    GraphBuilder& builder = context.builder();
    context.set(0, mul(builder, context.output_gradient(0), cos(builder, context.input(0))));
  }
};

class CosOp final : public MathOp {
 public:
  CosOp() : MathOp("cos") {}
  void gradient(GradientContext& context) const override {
    GraphBuilder& builder = context.builder();
    const ValueId slope = scale(builder, sin(builder, context.input(0)), -1);
    context.set(0, mul(builder, context.output_gradient(0), slope));
  }
};

ValueId one_more(GraphBuilder& builder, ValueId x) { return add(builder, x, constant(builder, 1, {1})); }

class AtanOp final : public MathOp {
 public:
  AtanOp() : MathOp("atan") {}
  void gradient(GradientContext& context) const override {
    GraphBuilder& builder = context.builder();
    const ValueId square = mul(builder, context.input(0), context.input(0));
    context.set(0, divide(builder, context.output_gradient(0), one_more(builder, square)));
  }
};

class ErfOp final : public MathOp {
 public:
  ErfOp() : MathOp("erf") {}
  void gradient(GradientContext& context) const override {  // 2 / √π · e^−x²
    GraphBuilder& builder = context.builder();
    const ValueId square = mul(builder, context.input(0), context.input(0));
    const ValueId slope =
        scale(builder, exp(builder, scale(builder, square, -1)), 2 * std::numbers::inv_sqrtpi);
    context.set(0, mul(builder, context.output_gradient(0), slope));
  }
};

class Log1pOp final : public MathOp {
 public:
  Log1pOp() : MathOp("log1p") {}
  void gradient(GradientContext& context) const override {
    GraphBuilder& builder = context.builder();
    context.set(0, divide(builder, context.output_gradient(0), one_more(builder, context.input(0))));
  }
};

class Expm1Op final : public MathOp {
 public:
  Expm1Op() : MathOp("expm1") {}
  void gradient(GradientContext& context) const override {
    GraphBuilder& builder = context.builder();
    context.set(0, mul(builder, context.output_gradient(0), one_more(builder, context.output(0))));
  }
};

class FloorOp final : public MathOp {
 public:
  FloorOp() : MathOp("floor") {}
  WholeNumbers whole_numbers() const override { return WholeNumbers::ends; }
  void gradient(GradientContext& /*context*/) const override {}
};

class RoundOp final : public MathOp {
 public:
  RoundOp() : MathOp("round") {}
  WholeNumbers whole_numbers() const override { return WholeNumbers::ends; }
  void gradient(GradientContext& /*context*/) const override {}
};

class PowOp final : public MathOp {
 public:
  PowOp() : MathOp("pow") {}
  WholeNumbers whole_numbers() const override { return WholeNumbers::keeps; }
  void gradient(GradientContext& context) const override {
    GraphBuilder& builder = context.builder();
    const double exponent = context.attributes().real("exponent");
    if (exponent == 0) {  // 0 · x^−1 would be NaN where x is 0
      context.set(0, scale(builder, context.output_gradient(0), 0));
      return;
    }
    const ValueId slope = scale(builder, pow(builder, context.input(0), exponent - 1), exponent);
    context.set(0, mul(builder, context.output_gradient(0), slope));
  }
};

class ClampOp final : public MathOp {
 public:
  ClampOp() : MathOp("clamp") {}
  WholeNumbers whole_numbers() const override { return WholeNumbers::keeps; }
  void gradient(GradientContext& context) const override {
    GraphBuilder& builder = context.builder();
    const ValueId passes = within(builder, context.input(0), context.attributes().real("least"),
                                  context.attributes().real("most"));
    context.set(0, mul(builder, context.output_gradient(0), passes));
  }
};

class WithinOp final : public MathOp {
 public:
  WithinOp() : MathOp("within") {}
  WholeNumbers whole_numbers() const override { return WholeNumbers::ends; }
  void gradient(GradientContext& /*context*/) const override {}
};

const ExpOp kExp;
const LogOp kLog;
const SinOp kSin;
const CosOp kCos;
const AtanOp kAtan;
const ErfOp kErf;
const Log1pOp kLog1p;
const Expm1Op kExpm1;
const FloorOp kFloor;
const RoundOp kRound;
const PowOp kPow;
const ClampOp kClamp;
const WithinOp kWithin;

Attributes limits(const char* op, double least, double most) {
  if (!(least <= most))
    throw user_error("{}: the limits are {} and {}; the first must not be above the second", op, least, most);
  return {{"least", least}, {"most", most}};
}

}  // namespace

ValueId exp(GraphBuilder& builder, ValueId x) { return builder.add1(kExp, {x}); }
ValueId log(GraphBuilder& builder, ValueId x) { return builder.add1(kLog, {x}); }
ValueId sin(GraphBuilder& builder, ValueId x) { return builder.add1(kSin, {x}); }
ValueId cos(GraphBuilder& builder, ValueId x) { return builder.add1(kCos, {x}); }
ValueId atan(GraphBuilder& builder, ValueId x) { return builder.add1(kAtan, {x}); }
ValueId erf(GraphBuilder& builder, ValueId x) { return builder.add1(kErf, {x}); }
ValueId log1p(GraphBuilder& builder, ValueId x) { return builder.add1(kLog1p, {x}); }
ValueId expm1(GraphBuilder& builder, ValueId x) { return builder.add1(kExpm1, {x}); }
ValueId floor(GraphBuilder& builder, ValueId x) { return builder.add1(kFloor, {x}); }
ValueId round(GraphBuilder& builder, ValueId x) { return builder.add1(kRound, {x}); }
ValueId pow(GraphBuilder& builder, ValueId x, double exponent) {
  return builder.add1(kPow, {x}, {{"exponent", exponent}});
}
ValueId clamp(GraphBuilder& builder, ValueId x, double least, double most) {
  return builder.add1(kClamp, {x}, limits("clamp", least, most));
}
ValueId within(GraphBuilder& builder, ValueId x, double least, double most) {
  return builder.add1(kWithin, {x}, limits("within", least, most));
}
ValueId divide(GraphBuilder& builder, ValueId a, ValueId b) { return mul(builder, a, pow(builder, b, -1)); }

}  // namespace telar
