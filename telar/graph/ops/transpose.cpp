#include "telar/graph/ops/transpose.h"

#include <fmt/ranges.h>

#include "telar/core/error.h"
#include "telar/graph/autodiff.h"

namespace telar {

namespace {

class TransposeOp final : public Op {
 public:
  std::string_view name() const override { return "transpose"; }
  bool bf16() const override { return true; }
  WholeNumbers whole_numbers() const override { return WholeNumbers::keeps; }
  std::vector<TensorType> infer(const std::vector<TensorType>& inputs,
                                const Attributes& attributes) const override {
    const Shape& x = inputs[0].shape;
    const auto& permutation = attributes.integers("permutation");
    std::vector<bool> seen(x.rank(), false);
    std::vector<int64_t> y;
    for (const int64_t axis : permutation) {
      if (axis < 0 || axis >= static_cast<int64_t>(x.rank()) || seen[static_cast<size_t>(axis)]) break;
      seen[static_cast<size_t>(axis)] = true;
      y.push_back(x[static_cast<size_t>(axis)]);
    }
    if (y.size() != x.rank() || permutation.size() != x.rank()) {
      throw user_error(
          "transpose: {} is not a permutation of the axes of {}; each of 0 to {} must appear once",
          fmt::format("{}", permutation), x.str(), x.rank() - 1);
    }
    return {{inputs[0].dtype, Shape(y)}};
  }
  void gradient(GradientContext& context) const override {
    const auto& permutation = context.attributes().integers("permutation");
    std::vector<int64_t> inverse(permutation.size());
    for (size_t i = 0; i < permutation.size(); ++i) {
      inverse[static_cast<size_t>(permutation[i])] = static_cast<int64_t>(i);
    }
    context.set(0, transpose(context.builder(), context.output_gradient(0), inverse));
  }
};

const TransposeOp kTranspose;

}  // namespace

ValueId transpose(GraphBuilder& builder, ValueId x, const std::vector<int64_t>& permutation) {
  return builder.add1(kTranspose, {x}, {{"permutation", permutation}});
}

}  // namespace telar
