#include "telar/graph/ops/convert.h"

#include "telar/core/error.h"
#include "telar/graph/autodiff.h"

namespace telar {

namespace {

class ConvertOp final : public Op {
 public:
  std::string_view name() const override { return "convert"; }
  std::optional<Attributes> for_features(const Attributes& attributes, const TensorType& /*x*/,
                                         int64_t /*begin*/, int64_t /*end*/) const override {
    return attributes;
  }
  std::vector<TensorType> infer(const std::vector<TensorType>& inputs,
                                const Attributes& attributes) const override {
    return {{attributes.text("to") == "bf16" ? DType::bf16 : DType::f32, inputs[0].shape}};
  }
  void gradient(GradientContext& context) const override {
    const ValueId dy = context.output_gradient(0);
    const DType wanted = context.type(context.input(0)).dtype;
    context.set(0, context.type(dy).dtype == wanted ? dy : convert(context.builder(), dy, wanted));
  }
};

const ConvertOp kConvert;

}  // namespace

ValueId convert(GraphBuilder& builder, ValueId x, DType to) {
  if (to != DType::f32 && to != DType::bf16) throw run_error("convert: to {} is not supported", name_of(to));
  return builder.add1(kConvert, {x}, {{"to", std::string(name_of(to))}});
}

}  // namespace telar
