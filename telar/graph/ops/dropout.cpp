#include "telar/graph/ops/dropout.h"

#include "telar/core/error.h"
#include "telar/graph/autodiff.h"
#include "telar/graph/ops/axis.h"
#include "telar/graph/ops/random_inputs.h"

namespace telar {

namespace {

class DropoutOp final : public Op {
 public:
  std::string_view name() const override { return "dropout"; }
  bool bf16() const override { return true; }
  std::optional<Attributes> for_features(const Attributes& attributes, const TensorType& x, int64_t begin,
                                         int64_t /*end*/) const override {
    return attributes.with("first", begin * (x.shape.elements_per_item() / x.shape[1]));
  }
  // inputs: x, sample, random
  std::vector<TensorType> infer(const std::vector<TensorType>& inputs, const Attributes&) const override {
    const TensorType& x = inputs[0];
    check_floating(name(), x);
    if (x.shape.rank() == 0) throw user_error("dropout: its input must have an axis, the samples");
    check_random_inputs(name(), x.shape[0], inputs[1], inputs[2]);
    constexpr int64_t kMostElements = int64_t{1} << 34U;  // four for each value of a word of the counter
    if (x.shape.elements_per_item() >= kMostElements)
      throw user_error("dropout: a sample of {} has 2^34 elements or more", x.str());
    return {x};
  }
  // The operation is linear in x: its gradient applies the same mask, generated again, to dy.
  void gradient(GradientContext& context) const override {
    context.set(
        0, context.builder().add1(*this, {context.output_gradient(0), context.input(1), context.input(2)},
                                  context.attributes()));
  }
};

const DropoutOp kDropout;

}  // namespace

ValueId dropout(GraphBuilder& builder, ValueId x, double rate, ValueId sample, ValueId random) {
  if (!(rate >= 0 && rate < 1))
    throw user_error("dropout: the rate is {}; it must be at least 0 and below 1", rate);
  if (rate == 0) return x;
  return builder.add1(kDropout, {x, sample, random},
                      {{"rate", rate}, {"stream", next_stream(builder, kDropout)}});
}

}  // namespace telar
