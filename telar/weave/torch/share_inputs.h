#pragma once

#include <optional>

#include "telar/weave/torch/drawn_batches.h"
#include "telar/weave/torch/row_wise.h"
#include "telar/weave/torch/share_step.h"
#include "telar/weave/torch/shares.h"
#include "telar/weave/torch/text_columns.h"

namespace telar::weave {

/// Finds the tensors of which a training step can take a part: variables that keep their values in the steps,
/// batches that they take, and rows of text in columns.
class ShareInputs {
 public:
  /// Adds what it finds to `share`.
  ShareInputs(const Names& names, const ShareStep& step, DrawnBatches& drawn, TorchShare& share)
      : names_(names), step_(step), drawn_(drawn), share_(share) {}

  /// The rows of an expression of the step; nothing if it is not such a tensor.
  std::optional<Rows> input_of(const Node* expression);
  /// Whether the rows of all tensors found are known to be samples.
  bool are_known_samples() const;
  /// Puts the tensors whose part is taken before the loop first.
  void sort();
  /// Of text in columns, the expression for their number; otherwise null.
  const Node* size() const { return size_; }

 private:
  std::optional<Rows> converted(const Node* call);
  std::optional<Rows> tensor_in(const Node* name, const Node* made);
  std::optional<Rows> taken(const Node* subscript);
  bool are_random_rows(const Value& value);
  bool is_state(const Node* name, const std::vector<Value>& values) const;
  bool stays(const Node* name) const;
  void add(SharedTensor tensor);
  bool is_rows_of_columns(const Node* subscript);
  void use_columns(const Node* name, const Columns& columns);
  bool is_rows_by_function(const Node* call);

  const Names& names_;
  const ShareStep& step_;
  DrawnBatches& drawn_;
  TorchShare& share_;
  const Node* size_ = nullptr;
};

}  // namespace telar::weave
