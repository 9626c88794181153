#include "telar/graph/ops/whole_numbers.h"

#include "telar/core/error.h"
#include "telar/graph/autodiff.h"

namespace telar {

namespace {

class WholeNumbersOp final : public Op {
 public:
  WholeNumbersOp(std::string_view name, DType from, DType to) : name_(name), from_(from), to_(to) {}
  std::string_view name() const override { return name_; }
  std::vector<TensorType> infer(const std::vector<TensorType>& inputs, const Attributes&) const override {
    if (inputs[0].dtype != from_)
      throw user_error("{}: input is {}; it must be {}", name_, inputs[0].str(), name_of(from_));
    return {{to_, inputs[0].shape}};
  }
  void gradient(GradientContext& /*context*/) const override {}
  WholeNumbers whole_numbers() const override {
    return to_ == DType::f32 ? WholeNumbers::begins : WholeNumbers::ends;
  }

 private:
  std::string_view name_;
  DType from_;
  DType to_;
};

const WholeNumbersOp kToIndices("to_indices", DType::f32, DType::i32);
const WholeNumbersOp kToNumbers("to_numbers", DType::i32, DType::f32);

}  // namespace

ValueId to_indices(GraphBuilder& builder, ValueId x) { return builder.add1(kToIndices, {x}); }
ValueId to_numbers(GraphBuilder& builder, ValueId x) { return builder.add1(kToNumbers, {x}); }

}  // namespace telar
