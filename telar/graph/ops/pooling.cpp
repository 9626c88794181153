#include "telar/graph/ops/pooling.h"

#include "telar/core/error.h"
#include "telar/graph/autodiff.h"

namespace telar {

namespace {

class PoolBackwardOp final : public Op {
 public:
  explicit PoolBackwardOp(std::string_view name) : name_(name) {}
  std::string_view name() const override { return name_; }
  bool bf16() const override { return true; }
  // inputs: dy [N, C, H', W'], and max_pool's workspace; attribute input_size = [H, W]
  std::vector<TensorType> infer(const std::vector<TensorType>& inputs,
                                const Attributes& attributes) const override {
    const auto& size = attributes.integers("input_size");
    return {{inputs[0].dtype, {inputs[0].shape[0], inputs[0].shape[1], size[0], size[1]}}};
  }

 private:
  std::string_view name_;
};

const PoolBackwardOp kMaxBackward("max_pool_backward");
const PoolBackwardOp kAverageBackward("average_pool_backward");

class PoolOp final : public Op {
 public:
  explicit PoolOp(bool max) : max_(max) {}
  std::string_view name() const override { return max_ ? "max_pool" : "average_pool"; }
  bool bf16() const override { return true; }
  std::optional<Attributes> for_features(const Attributes& attributes, const TensorType& /*x*/,
                                         int64_t /*begin*/, int64_t /*end*/) const override {
    return attributes;
  }

  // outputs: y, and for max_pool a workspace that records which element was the largest
  std::vector<TensorType> infer(const std::vector<TensorType>& inputs,
                                const Attributes& attributes) const override {
    const TensorType& x = inputs[0];
    if (x.shape.rank() != 4)
      throw user_error("{}: input is {}; it must be [N, C, H, W]", name(), x.shape.str());
    Shape y = x.shape;
    for (size_t i = 0; i < 2; ++i) {
      const int64_t kernel = attributes.integers("kernel")[i];
      const int64_t padding = attributes.integers("padding")[i];
      if (kernel < 1 || padding < 0 || 2 * padding > kernel) {
        throw user_error("{}: kernel {} with padding {}; the padding must be at most half the kernel", name(),
                         kernel, padding);
      }
      const int64_t room = x.shape[2 + i] + 2 * padding - kernel;
      if (room < 0)
        throw user_error("{}: kernel {} does not fit an input of {}", name(), kernel, x.shape.str());
      y[2 + i] = room / attributes.integers("stride")[i] + 1;
    }
    std::vector<TensorType> types{{x.dtype, y}};
    if (max_) types.push_back({DType::opaque, y});
    return types;
  }

  void gradient(GradientContext& context) const override {
    const Shape x = context.type(context.input(0)).shape;
    const Attributes attributes = context.attributes().with("input_size", std::vector<int64_t>{x[2], x[3]});
    const ValueId dy = context.output_gradient(0);
    context.set(0, max_ ? context.builder().add1(kMaxBackward, {dy, context.output(1)}, attributes)
                        : context.builder().add1(kAverageBackward, {dy}, attributes));
  }

 private:
  bool max_;
};

const PoolOp kMaxPool(true);
const PoolOp kAveragePool(false);

Attributes attributes_of(const PoolOptions& options) {
  return {{"kernel", std::vector<int64_t>{options.kernel_h, options.kernel_w}},
          {"stride", std::vector<int64_t>{options.stride_h, options.stride_w}},
          {"padding", std::vector<int64_t>{options.padding_h, options.padding_w}}};
}

}  // namespace

ValueId max_pool(GraphBuilder& builder, ValueId x, const PoolOptions& options) {
  return builder.add1(kMaxPool, {x}, attributes_of(options));
}

ValueId average_pool(GraphBuilder& builder, ValueId x, const PoolOptions& options) {
  return builder.add1(kAveragePool, {x}, attributes_of(options));
}

ValueId global_average_pool(GraphBuilder& builder, ValueId x) {
  const Shape shape = builder.type(x).shape;
  if (shape.rank() != 4)
    throw user_error("global_average_pool: input is {}; it must be [N, C, H, W]", shape.str());
  return average_pool(builder, x, {shape[2], shape[3], 1, 1, 0, 0});
}

}  // namespace telar
