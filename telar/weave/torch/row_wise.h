#pragma once

#include <functional>
#include <set>
#include <utility>

#include "telar/weave/torch/program.h"

namespace telar::weave {

/// Whether each row (sample) of what an expression computes depends on the same row of its inputs alone,
/// and whether a loss is a mean over such rows. Then the rows can be divided among processes. What is not
/// known to be row-wise is not.
class RowWise {
 public:
  /// Whether a name, subscript or call is an input whose rows are samples. It is asked before anything else.
  using IsInput = std::function<bool(const Node* expression)>;
  /// How many arguments of a call, from the first on, are inputs of layers that treat each row by itself;
  /// 0: it is not known to apply such layers. The first argument has been found to have rows.
  using CountInputs = std::function<size_t(const Node* call)>;

  /// `scope`: the loop or function in which values are followed.
  RowWise(const Names& names, const Node* scope, IsInput is_input, CountInputs count_inputs)
      : names_(names),
        scope_(scope),
        is_input_(std::move(is_input)),
        count_inputs_(std::move(count_inputs)) {}

  /// `part`: the index in a tuple; -1: the whole.
  bool has_rows(const Node* expression, int part = -1);
  /// Whether an expression is a mean over the rows, plus terms and times factors that do not depend on them.
  bool is_mean(const Node* expression);
  /// The places of the names that were followed, and the statements that assign them.
  const std::set<int>& followed() const { return followed_; }
  const std::set<const Node*>& statements() const { return statements_; }
  /// What was not understood first; null if all was.
  const Node* culprit() const { return culprit_; }

 private:
  bool fail(const Node* at) {
    if (culprit_ == nullptr) culprit_ = at;
    return false;
  }
  bool follow(const Node* name, const std::function<bool(const Value&)>& holds);
  bool rows_of_call(const Node* call, int part);
  bool mean_of_call(const Node* call);
  bool is_free(const Node* expression);
  bool compares_rows(const Node* call);

  const Names& names_;
  const Node* scope_;
  IsInput is_input_;
  CountInputs count_inputs_;
  std::set<int> followed_;
  std::set<const Node*> statements_;
  std::set<std::pair<const Node*, int>> seen_;
  const Node* culprit_ = nullptr;
};

/// Whether the layers of a model that a call applies treat each row of its input by itself, as layers of
/// torch.nn and classes whose forward() only consists of such layers do.
bool treats_rows_alone(const Names& names, const Node* call);

/// Whether a value does not change with the samples: a constant, or an argument of the command line.
bool is_setting(const Names& names, const Node* expression);

}  // namespace telar::weave
