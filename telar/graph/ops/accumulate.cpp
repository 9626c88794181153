#include "telar/graph/ops/accumulate.h"

#include "telar/core/error.h"

namespace telar {

namespace {

constexpr size_t kBatchOf = 2;

class AccumulateOp final : public Op {
 public:
  std::string_view name() const override { return "accumulate"; }
  Effect effect() const override { return Effect::accumulates; }
  std::optional<Attributes> for_features(const Attributes& attributes, const TensorType& /*x*/,
                                         int64_t /*begin*/, int64_t /*end*/) const override {
    return attributes;
  }
  std::vector<TensorType> infer(const std::vector<TensorType>& inputs, const Attributes&) const override {
    if (inputs[0] != inputs[1] || inputs[0].dtype != DType::f32) {
      throw user_error("accumulate: the buffer is {} and the value {}; both must be the same f32 shape",
                       inputs[0].str(), inputs[1].str());
    }
    return {};
  }
  bool reads_values(size_t input) const override { return input != kBatchOf; }
};

const AccumulateOp kAccumulate;

}  // namespace

void accumulate(GraphBuilder& builder, ValueId buffer, ValueId value) {
  builder.add(kAccumulate, {buffer, value});
}

void accumulate_times_batch(GraphBuilder& builder, ValueId buffer, ValueId value, ValueId batch_of) {
  builder.add(kAccumulate, {buffer, value, batch_of});
}

}  // namespace telar
