#include "telar/graph/ops/communication.h"

#include "telar/core/error.h"

namespace telar {

namespace {

class ReduceBucketOp final : public Op {
 public:
  std::string_view name() const override { return "reduce_bucket"; }
  Effect effect() const override { return Effect::sums_gradients; }
  std::vector<TensorType> infer(const std::vector<TensorType>&, const Attributes&) const override {
    return {};
  }
};

class AllGatherOp final : public Op {
 public:
  std::string_view name() const override { return "all_gather"; }
  Effect effect() const override { return Effect::exchanges; }
  std::vector<TensorType> infer(const std::vector<TensorType>& inputs,
                                const Attributes& attributes) const override {
    if (inputs[0].dtype != DType::f32 || inputs[0].shape.rank() != 1) {
      throw run_error("all_gather: the value is {}; it must be f32 [K]", inputs[0].str());
    }
    return {{DType::f32, {attributes.integer("members"), inputs[0].shape[0]}}};
  }
};

const ReduceBucketOp kReduceBucket;
const AllGatherOp kAllGather;

}  // namespace

void reduce_bucket(GraphBuilder& builder, int64_t bucket) {
  builder.add(kReduceBucket, {}, {{"bucket", bucket}});
}

ValueId all_gather(GraphBuilder& builder, ValueId x, int64_t members) {
  return builder.add1(kAllGather, {x}, {{"members", members}});
}

}  // namespace telar
