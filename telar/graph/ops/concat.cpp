#include "telar/graph/ops/concat.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

#include "telar/core/error.h"
#include "telar/graph/autodiff.h"
#include "telar/graph/ops/axis.h"

namespace telar {

namespace {

size_t axis_in(const Attributes& attributes) { return static_cast<size_t>(attributes.integer("axis")); }

class ConcatBackwardOp final : public Op {
 public:
  std::string_view name() const override { return "concat_backward"; }
  bool bf16() const override { return true; }
  // inputs: dy, then the operands of concat (for their shapes: along the batch they are not constants)
  std::vector<TensorType> infer(const std::vector<TensorType>& inputs, const Attributes&) const override {
    return {inputs.begin() + 1, inputs.end()};
  }
};

class SplitBackwardOp final : public Op {
 public:
  std::string_view name() const override { return "split_backward"; }
  bool bf16() const override { return true; }
  // inputs: x (for its shape), then the gradient of each part; an absent gradient counts as zeros
  std::vector<TensorType> infer(const std::vector<TensorType>& inputs, const Attributes&) const override {
    return {inputs[0]};
  }
};

const ConcatBackwardOp kConcatBackward;
const SplitBackwardOp kSplitBackward;

class ConcatOp final : public Op {
 public:
  std::string_view name() const override { return "concat"; }
  bool bf16() const override { return true; }
  WholeNumbers whole_numbers() const override { return WholeNumbers::keeps; }
  std::vector<TensorType> infer(const std::vector<TensorType>& inputs,
                                const Attributes& attributes) const override {
    const size_t axis = axis_in(attributes);
    TensorType y = inputs[0];
    for (size_t i = 1; i < inputs.size(); ++i) {
      Shape fitting = inputs[i].shape;
      if (fitting.rank() == y.shape.rank()) fitting[axis] = y.shape[axis];
      if (fitting != y.shape || inputs[i].dtype != y.dtype) {
        throw user_error("concat: {} and {} do not fit; dtype and every axis but {} must be equal",
                         inputs[0].str(), inputs[i].str(), axis);
      }
      y.shape[axis] += inputs[i].shape[axis];
    }
    return {y};
  }
  void gradient(GradientContext& context) const override {
    std::vector<ValueId> inputs{context.output_gradient(0)};
    for (size_t i = 0; i < context.input_count(); ++i) inputs.push_back(context.input(i));
    const auto gradients = context.builder().add(kConcatBackward, inputs, context.attributes());
    for (size_t i = 0; i < gradients.size(); ++i) context.set(i, gradients[i]);
  }
};

class SplitOp final : public Op {
 public:
  std::string_view name() const override { return "split"; }
  bool bf16() const override { return true; }
  WholeNumbers whole_numbers() const override { return WholeNumbers::keeps; }
  std::vector<TensorType> infer(const std::vector<TensorType>& inputs,
                                const Attributes& attributes) const override {
    const size_t axis = axis_in(attributes);
    const auto& sizes = attributes.integers("sizes");
    const TensorType& x = inputs[0];
    if (std::any_of(sizes.begin(), sizes.end(), [](int64_t size) { return size < 1; }) ||
        std::accumulate(sizes.begin(), sizes.end(), int64_t{0}) != x.shape[axis]) {
      throw user_error("split: parts of {} of axis {} of {}; they must be positive and add up to {}",
                       fmt::format("{}", sizes), axis, x.shape.str(), x.shape[axis]);
    }
    std::vector<TensorType> parts(sizes.size(), x);
    for (size_t i = 0; i < sizes.size(); ++i) parts[i].shape[axis] = sizes[i];
    return parts;
  }
  void gradient(GradientContext& context) const override {
    std::vector<ValueId> inputs{context.input(0)};
    for (size_t i = 0; i < context.output_count(); ++i) inputs.push_back(context.output_gradient(i));
    context.set(0, context.builder().add1(kSplitBackward, inputs, context.attributes()));
  }
};

const ConcatOp kConcat;
const SplitOp kSplit;

}  // namespace

ValueId concat(GraphBuilder& builder, const std::vector<ValueId>& values, int64_t axis) {
  if (values.empty()) throw user_error("concat: there is nothing to concatenate; give at least one input");
  const size_t along = axis_of(kConcat.name(), axis, builder.type(values[0]).shape);
  return builder.add1(kConcat, values, {{"axis", static_cast<int64_t>(along)}});
}

std::vector<ValueId> split(GraphBuilder& builder, ValueId x, int64_t axis,
                           const std::vector<int64_t>& sizes) {
  const size_t along = axis_of(kSplit.name(), axis, builder.type(x).shape);
  return builder.add(kSplit, {x}, {{"axis", static_cast<int64_t>(along)}, {"sizes", sizes}});
}

}  // namespace telar
