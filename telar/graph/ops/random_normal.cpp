#include "telar/graph/ops/random_normal.h"

#include "telar/core/error.h"
#include "telar/graph/autodiff.h"
#include "telar/graph/ops/random_inputs.h"

namespace telar {

namespace {

class RandomNormalOp final : public Op {
 public:
  std::string_view name() const override { return "random_normal"; }
  // inputs: sample, random
  std::vector<TensorType> infer(const std::vector<TensorType>& inputs,
                                const Attributes& attributes) const override {
    if (inputs[0].shape.rank() == 0)
      throw user_error("random_normal: sample ids must have an axis, the samples");
    check_random_inputs(name(), inputs[0].shape[0], inputs[0], inputs[1]);
    std::vector<int64_t> dims{inputs[0].shape[0]};
    const auto& item = attributes.integers("shape");
    dims.insert(dims.end(), item.begin(), item.end());
    constexpr int64_t kMostElements = int64_t{1} << 33U;  // two for each value of a word of the counter
    Shape y(std::move(dims));
    if (y.elements_per_item() >= kMostElements)
      throw user_error("random_normal: a sample of {} has 2^33 elements or more", y.str());
    return {{DType::f32, y}};
  }
  void gradient(GradientContext& /*context*/) const override {}
};

const RandomNormalOp kRandomNormal;

}  // namespace

ValueId random_normal(GraphBuilder& builder, const Shape& item, ValueId sample, ValueId random) {
  return builder.add1(kRandomNormal, {sample, random},
                      {{"shape", item.dims()}, {"stream", next_stream(builder, kRandomNormal)}});
}

}  // namespace telar
