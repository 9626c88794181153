#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "telar/weave/torch/program.h"

namespace telar::weave {

/// A value whose entries along one axis are samples.
struct Rows {
  int axis = 0;
  int dims = 0;  ///< number of axes; 0: unknown
  bool operator==(const Rows& other) const { return axis == other.axis; }
};

/// The arguments of a call by position; nothing for one that has no samples.
using RowsOfArguments = std::vector<std::optional<Rows>>;

/// Whether each row (sample) of what an expression computes depends on the same row of its inputs alone,
/// and whether a loss is a mean over such rows. Then the rows can be divided among processes. What is not
/// known to be row-wise is not.
class RowWise {
 public:
  /// The samples of an expression that is an input. It is asked before anything else.
  using Input = std::function<std::optional<Rows>(const Node* expression)>;
  /// The samples of what a call of layers computes; nothing if it is not known to treat each row by itself.
  using Apply = std::function<std::optional<Rows>(const Node* call, const RowsOfArguments& given, int part)>;
  using Mean = std::function<bool(const Node* call, int part)>;

  /// `scope`: the loop or function in which values are followed. `has_axes`: whether the axes of the inputs
  /// are known, so that they can be followed through transpositions; otherwise these are not understood.
  /// `mean`: whether a part of what a call of the model returns is a mean over the samples, as a loss that
  /// forward() computes.
  RowWise(const Names& names, const Node* scope, bool has_axes, Input input, Apply apply, Mean mean = {})
      : names_(names),
        scope_(scope),
        has_axes_(has_axes),
        input_(std::move(input)),
        apply_(std::move(apply)),
        mean_(std::move(mean)) {}

  /// `part`: the index in a tuple; -1: the whole.
  std::optional<Rows> rows(const Node* expression, int part = -1);
  /// The samples of what an assignment gives to a variable.
  std::optional<Rows> rows_of(const Value& value, std::string_view name);
  /// Whether the samples are along the first axis.
  bool has_rows(const Node* expression, int part = -1);
  /// Whether an expression is a mean over the rows, plus terms and times factors that do not depend on them.
  bool is_mean(const Node* expression);
  /// The places of the names that were followed, those of them that are means, and the statements that
  /// assign them.
  const std::set<int>& followed() const { return followed_; }
  const std::set<int>& means() const { return means_; }
  const std::set<const Node*>& statements() const { return statements_; }
  /// What was not understood first; null if all was.
  const Node* culprit() const { return culprit_; }

 private:
  using Answer = std::optional<Rows>;
  bool fail(const Node* at) {
    if (culprit_ == nullptr) culprit_ = at;
    return false;
  }
  Answer none(const Node* at) {
    fail(at);
    return std::nullopt;
  }
  /// Whether a question may hold without a trace if it does not.
  template <typename Ask>
  auto tried(const Ask& ask) {
    const Node* const culprit = culprit_;
    const auto answer = ask();
    culprit_ = culprit;
    return answer;
  }
  template <typename Visit>
  bool follow(const Node* name, const Visit& visit);
  Answer rows_of_name(const Node* name);
  Answer rows_of_operation(const Node* operation);
  Answer rows_of_call(const Node* call, int part);
  Answer rows_of_layers(const Node* call, int part);
  Answer rows_of_iterated(const Value& value);
  Answer rows_of_list(const Node* list);
  Answer common(const std::vector<Answer>& all, const Node* at);
  Answer rows_of_new(const Node* call);
  Answer rows_of_subscript(const Node* subscript);
  Answer shaped(std::string_view operation, const Rows& rows, const std::vector<const Node*>& given,
                const Node* call);
  Answer moved(const Rows& rows, const std::vector<const Node*>& order, const Node* call);
  bool counts_samples(const Node* expression);
  bool mean_of_call(const Node* call);
  bool is_free(const Node* expression);
  bool is_rowless(const Node* expression, int depth = 8);
  bool compares_rows(const Node* call);

  const Names& names_;
  const Node* scope_;
  bool has_axes_;
  Input input_;
  Apply apply_;
  Mean mean_;
  std::set<int> followed_;
  std::set<int> means_;
  std::set<const Node*> statements_;
  std::map<std::pair<const Node*, int>, Answer> known_;
  std::set<std::pair<const Node*, int>> in_progress_;
  const Node* culprit_ = nullptr;
};

/// The assignments within `scope` whose value a mention of a variable may read. `is_certain`: whether one
/// of them always precedes it.
std::vector<Value> values_before(const Names& names, const Node* scope, const Node* name, bool& is_certain);

/// What the layers of a model that a call applies compute of samples: layers of torch.nn, and classes whose
/// forward() only consists of such layers. Nothing if they may mix samples. `part`: the index in a tuple.
std::optional<Rows> apply_layers(const Names& names, const Node* call, const RowsOfArguments& given,
                                 int part = -1, int depth = 6);

/// Whether a call of layers may return a tuple with this part; -1: a single value.
bool may_return(const Names& names, const Node* call, int part);

/// Whether a part of what forward() of a class returns is None or a mean over its arguments' samples, if
/// its layers treat samples alike.
bool returns_mean(const Names& names, const Node* owner, int part);

/// Whether a value does not change with the samples: a constant, or an argument of the command line.
bool is_setting(const Names& names, const Node* expression);

/// The value of an integer constant, also in a variable, and of the length of a display.
std::optional<int> constant_of(const Names& names, const Node* expression);

}  // namespace telar::weave
