#pragma once

#include "telar/graph/graph.h"

namespace telar {

/// What an operation's gradient works with: the node of the forward graph, the gradients of its outputs, and
/// the builder to which backward nodes are added (in the scope of the forward node).
class GradientContext {
 public:
  GradientContext(GraphBuilder& builder, const Node& node, std::vector<ValueId> output_gradients,
                  std::vector<bool> needs)
      : builder_(builder),
        node_(node),
        output_gradients_(std::move(output_gradients)),
        needs_(std::move(needs)),
        input_gradients_(node.inputs.size(), kNoValue) {}

  GraphBuilder& builder() { return builder_; }
  const Attributes& attributes() const { return node_.attributes; }
  ValueId input(size_t i) const { return node_.inputs[i]; }
  bool has_input(size_t i) const { return i < node_.inputs.size() && node_.inputs[i] != kNoValue; }
  size_t input_count() const { return node_.inputs.size(); }
  size_t output_count() const { return node_.outputs.size(); }
  ValueId output(size_t i) const { return node_.outputs[i]; }
  TensorType type(ValueId value) const { return builder_.type(value); }

  /// The gradient of output i; kNoValue when the loss does not depend on that output.
  ValueId output_gradient(size_t i) const { return output_gradients_[i]; }
  /// Whether the gradient of input i is needed. If not, add no nodes for it.
  bool needs(size_t i) const { return i < needs_.size() && needs_[i]; }

  void set(size_t input, ValueId gradient) { input_gradients_[input] = gradient; }
  ValueId result(size_t input) const { return input_gradients_[input]; }

 private:
  GraphBuilder& builder_;
  const Node& node_;
  std::vector<ValueId> output_gradients_;
  std::vector<bool> needs_;
  std::vector<ValueId> input_gradients_;
};

/// The gradient of the f32 [1] value `loss` (a sum over samples) with respect to `wanted`: the forward graph
/// followed by its backward part. After the last contribution to a wanted parameter's gradient, `accumulate`
/// adds the gradient to the parameter's gradient buffer. Gradients are therefore ready in the order in which
/// backward produces them. For a wanted *input*, the gradient becomes an output "gradient/NAME" (used by
/// tests). Throws Error (user) when a wanted value does not influence the loss, or when an operation has no
/// gradient.
Graph differentiate(const Graph& forward, ValueId loss, const std::vector<ValueId>& wanted);

}  // namespace telar
