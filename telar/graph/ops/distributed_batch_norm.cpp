#include "telar/graph/ops/distributed_batch_norm.h"

namespace telar {

namespace {

int64_t channels_of(const TensorType& x) { return x.shape[1]; }

/// An operation whose outputs have the type of input 0, or are f32 vectors whose size depends on the number
/// of channels.
template <typename Infer>
class SimpleOp final : public Op {
 public:
  SimpleOp(std::string_view name, Infer infer) : name_(name), infer_(infer) {}
  std::string_view name() const override { return name_; }
  bool bf16() const override { return true; }
  std::vector<TensorType> infer(const std::vector<TensorType>& inputs, const Attributes&) const override {
    return infer_(inputs);
  }

 private:
  std::string_view name_;
  Infer infer_;
};

using Types = std::vector<TensorType>;

const SimpleOp kStatistics("batch_norm_statistics", [](const Types& inputs) {
  return Types{{DType::f32, {2 * channels_of(inputs[0]) + 1}}};
});
const SimpleOp kCombine("combine_statistics", [](const Types& inputs) {
  const int64_t length = inputs[0].shape[1];
  const Shape channels{(length - 1) / 2};
  return Types{{DType::f32, {length}}, {DType::f32, channels}, {DType::f32, channels}};
});
const SimpleOp kApply("batch_norm_apply", [](const Types& inputs) { return Types{inputs[0]}; });
const SimpleOp kBackwardSums("batch_norm_backward_sums", [](const Types& inputs) {
  const int64_t channels = channels_of(inputs[0]);
  return Types{{DType::f32, {2 * channels}}, {DType::f32, {channels}}, {DType::f32, {channels}}};
});
const SimpleOp kBackwardApply("batch_norm_backward_apply",
                              [](const Types& inputs) { return Types{inputs[0]}; });

}  // namespace

ValueId batch_norm_statistics(GraphBuilder& builder, ValueId x) { return builder.add1(kStatistics, {x}); }

BatchStatistics combine_statistics(GraphBuilder& builder, ValueId gathered, bool biased) {
  const auto outputs =
      builder.add(kCombine, {gathered}, biased ? Attributes{{"biased", true}} : Attributes{});
  return {outputs[0], outputs[1], outputs[2]};
}

ValueId batch_norm_apply(GraphBuilder& builder, ValueId x, ValueId gamma, ValueId beta, ValueId statistics,
                         double epsilon) {
  return builder.add1(kApply, {x, gamma, beta, statistics}, {{"epsilon", epsilon}});
}

BatchNormSums batch_norm_backward_sums(GraphBuilder& builder, ValueId x, ValueId dy, ValueId statistics,
                                       double epsilon) {
  const auto outputs = builder.add(kBackwardSums, {x, dy, statistics}, {{"epsilon", epsilon}});
  return {outputs[0], outputs[1], outputs[2]};
}

ValueId batch_norm_backward_apply(GraphBuilder& builder, ValueId x, ValueId dy, ValueId gamma,
                                  ValueId statistics, ValueId gathered, double epsilon) {
  return builder.add1(kBackwardApply, {x, dy, gamma, statistics, gathered}, {{"epsilon", epsilon}});
}

}  // namespace telar
