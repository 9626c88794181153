#include "telar/graph/ops/reshape.h"

#include <fmt/ranges.h>

#include "telar/core/error.h"
#include "telar/graph/autodiff.h"

namespace telar {

namespace {

class ReshapeLikeOp final : public Op {
 public:
  std::string_view name() const override { return "reshape_like"; }
  bool bf16() const override { return true; }
  bool is_view() const override { return true; }
  std::vector<TensorType> infer(const std::vector<TensorType>& inputs, const Attributes&) const override {
    return {{inputs[0].dtype, inputs[1].shape}};
  }
};

const ReshapeLikeOp kReshapeLike;

/// Whether [N, C, …] becomes [N, product of the rest]: features of C are then features of the result.
bool flattens(const std::vector<int64_t>& dims, const Shape& x) {
  return x.rank() > 1 && dims.size() == 2 && dims[0] == 0 && dims[1] == x.elements_per_item();
}

class ReshapeOp final : public Op {
 public:
  std::string_view name() const override { return "reshape"; }
  bool bf16() const override { return true; }
  bool is_view() const override { return true; }
  std::optional<Attributes> for_features(const Attributes& attributes, const TensorType& x, int64_t begin,
                                         int64_t end) const override {
    if (!flattens(attributes.integers("dims"), x.shape)) return std::nullopt;
    const int64_t each = x.shape.elements_per_item() / x.shape[1];
    return attributes.with("dims", std::vector<int64_t>{0, (end - begin) * each});
  }
  std::vector<TensorType> infer(const std::vector<TensorType>& inputs,
                                const Attributes& attributes) const override {
    const Shape& x = inputs[0].shape;
    std::vector<int64_t> dims = attributes.integers("dims");
    std::vector<int64_t> known;
    int open = -1;
    for (size_t i = 0; i < dims.size(); ++i) {
      if (dims[i] == 0 && i < x.rank()) dims[i] = x[i];
      if (dims[i] == -1 && open < 0) {
        open = static_cast<int>(i);
      } else if (dims[i] < 1) {
        throw user_error(
            "reshape: {} is not a shape for {}; extents are positive, 0 (keep) or one −1 (what is left)",
            fmt::format("{}", attributes.integers("dims")), x.str());
      } else {
        known.push_back(dims[i]);
      }
    }
    if (open >= 0) dims[static_cast<size_t>(open)] = x.elements() / product_of(known);
    Shape y(dims);
    if (y.elements() != x.elements()) {
      throw user_error("reshape: {} has {} elements and cannot become {}", x.str(), x.elements(), y.str());
    }
    return {{inputs[0].dtype, y}};
  }
  void gradient(GradientContext& context) const override {
    context.set(0, context.builder().add1(kReshapeLike, {context.output_gradient(0), context.input(0)}));
  }
};

const ReshapeOp kReshape;

}  // namespace

ValueId reshape(GraphBuilder& builder, ValueId x, const std::vector<int64_t>& dims) {
  return builder.add1(kReshape, {x}, {{"dims", dims}});
}

ValueId flatten(GraphBuilder& builder, ValueId x) {
  const Shape shape = builder.type(x).shape;
  if (shape.rank() == 2) return x;
  return reshape(builder, x, {0, shape.elements_per_item()});
}

}  // namespace telar
