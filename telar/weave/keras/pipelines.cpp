// Follows tf.data pipelines from where a dataset is used to where it comes from.
#include "telar/weave/keras/pipelines.h"

#include <set>

namespace telar::weave {

namespace {

/// Whether a function of Keras or TensorFlow Datasets makes batches.
bool makes_batches(const KerasWeaving& w, const Node* call) {
  const std::string& callee = w.names.callee(call);
  return batch_argument(callee) != nullptr ||
         (callee == "tensorflow_datasets.load" && w.names.argument(call, "batch_size", -1) != nullptr);
}

bool is_batching(std::string_view method) {
  return method == "batch" || method == "padded_batch" || method == "ragged_batch";
}

/// Whether a method makes single elements of batches, or datasets of elements.
bool takes_apart(std::string_view method) {
  return method == "unbatch" || method == "flat_map" || method == "interleave" || method == "window" ||
         method == "rebatch" || method == "apply";
}

/// The calls that lead into functions of the script on the way to a dataset; the innermost call is last.
using Way = std::vector<const Node*>;

class PipelineFollower {
 public:
  /// `to_batches`: follows it up to the last call that makes batches.
  explicit PipelineFollower(const KerasWeaving& weaving, bool to_batches = false)
      : w_(weaving), to_batches_(to_batches) {}

  PipelineSource follow(const Node* expression, const Way& way = {}) {
    source_ = {};
    upstream(expression, -1, way, 0);
    return source_;
  }
  /// Whether take() or skip() count what comes through.
  bool counts() const { return counts_; }
  /// All expressions visited on the way.
  const std::vector<const Node*>& met() const { return met_; }

 private:
  void stop(const Node* expression) { source_.expression = expression; }

  void upstream(const Node* expression, int part, const Way& way, int depth) {
    met_.push_back(expression);
    if (depth > 40) return stop(expression);
    switch (expression->kind) {
      case Kind::name:
      case Kind::attribute:
      case Kind::subscript: return variable(expression, way, depth);
      case Kind::tuple:
        if (part >= 0 && static_cast<size_t>(part) < expression->list("elts").size()) {
          return upstream(expression->list("elts")[static_cast<size_t>(part)], -1, way, depth + 1);
        }
        return stop(expression);
      case Kind::call: return call(expression, part, way, depth);
      default: return stop(expression);
    }
  }

  void call(const Node* call, int part, Way way, int depth) {
    const Node* function = call->child("func");
    const Node* own = w_.names.definition(function);
    if (own != nullptr && own->is_function()) return entered(call, own, part, way, depth);
    const bool method = function->is(Kind::attribute) && is_dataset(w_.names, function->child("value"));
    if (makes_batches(w_, call)) source_.makers.push_back(call);
    const bool makes_batches = method && is_batching(function->text);
    if (makes_batches) source_.batches.push_back(call);
    if (to_batches_ && makes_batches) return stop(call);
    counts_ = counts_ || (method && (function->text == "take" || function->text == "skip"));
    if (method && (keeps_order(function->text) || (to_batches_ && !takes_apart(function->text))))
      return upstream(function->child("value"), -1, way, depth + 1);
    // If the function is called several times, its argument is divided, not the dataset that it creates.
    if (!method && !way.empty() && w_.names.calls_of(function_of(call)).size() > 1) {
      if (w_.names.callee(call) == "tensorflow.data.Dataset.from_tensor_slices") {
        source_.is_argument = true;
        return stop(way.back());
      }
      w_.refuse(
          call,
          "this function creates datasets for training and for other uses; pass the dataset to it, so that the one for training can be divided");
    }
    if (method && !way.empty() && w_.names.calls_of(function_of(call)).size() > 1) {
      w_.refuse(
          call,
          "this function creates several datasets, but only one is for training; take or filter samples outside it");
    }
    stop(call);
  }

  void entered(const Node* call, const Node* own, int part, Way way, int depth) {
    const Node* returned = nullptr;
    int returns = 0;
    walk(*own, [&](const Node& node) {
      if (&node != own && node.is_function()) return false;
      if (node.is(Kind::return_) && node.child("value") != nullptr) {
        returned = node.child("value");
        ++returns;
      }
      return true;
    });
    if (returns != 1)
      w_.refuse(call, "the dataset that this function returns is ambiguous; use a single return statement");
    way.push_back(call);
    upstream(returned, part, way, depth + 1);
  }

  /// Follows the assignment that reaches a use: the last one before it whose block contains the use.
  void variable(const Node* use, const Way& way, int depth) {
    const int place = w_.names.place(use);
    if (place < 0) return stop(use);
    if (w_.names.is_parameter(place) && !assigned_before(use, place))
      return parameter(use, place, way, depth);
    const Value* last = last_assignment(use, place);
    if (last == nullptr) return stop(use);
    const Node* statement = statement_of(last->node);
    const bool branch = function_of(last->node) == function_of(use) && !is_inside(use, statement->parent);
    if (branch && !goes_on(last->node, place)) {
      w_.refuse(statement, "the dataset for training depends on a branch; create it in one statement");
    }
    if (last->part >= 0 && last->node->is(Kind::call) && !returns_tuple(last->node)) {
      // One of several datasets that a library returns, or that are in a list.
      met_.push_back(last->node);
      if (makes_batches(w_, last->node)) source_.makers.push_back(last->node);
      return stop(use);
    }
    upstream(last->node, last->part, way, depth + 1);
  }

  bool returns_tuple(const Node* call) const {
    const Node* own = w_.names.definition(call->child("func"));
    bool all = own != nullptr && own->is_function();
    if (!all) return false;
    walk(*own, [&](const Node& node) {
      if (&node != own && node.is_function()) return false;
      if (node.is(Kind::return_) && node.child("value") != nullptr)
        all = all && node.child("value")->is(Kind::tuple);
      return true;
    });
    return all;
  }

  /// The last assignment in the function that contains the use, otherwise in the module.
  const Value* last_assignment(const Node* use, int place) const {
    const Node* scope = w_.names.scope(place);
    const Value* last = nullptr;
    for (const Value& value : w_.names.values(place)) {
      if (value.element || value.augmented || value.node->is_function()) continue;
      const bool here = function_of(value.node) == function_of(use);
      if (scope->is_function() && (!here || value.node->role == "defaults")) continue;
      if (here && value.node->end > use->begin) continue;
      if (last == nullptr || value.node->begin > last->node->begin) last = &value;
    }
    return last;
  }

  /// `ds = ds.shuffle(…)`: the same dataset, whether or not the branch is taken.
  bool goes_on(const Node* value, int place) const {
    while (value->is(Kind::call) && value->child("func")->is(Kind::attribute) &&
           keeps_order(value->child("func")->text)) {
      value = value->child("func")->child("value");
    }
    return w_.names.place(value) == place;
  }

  bool assigned_before(const Node* use, int place) const {
    for (const Value& value : w_.names.values(place)) {
      if (function_of(value.node) == w_.names.scope(place) && value.node->end <= use->begin &&
          !is_inside(value.node, w_.names.scope(place)->child("args")))
        return true;
    }
    return false;
  }

  void parameter(const Node* use, int place, Way way, int depth) {
    const Node* function = w_.names.scope(place);
    const auto callers = w_.names.calls_of(function);
    const Node* call = !way.empty() && w_.names.called_function(way.back()) == function ? way.back()
                       : callers.size() == 1                                            ? callers[0]
                                                                                        : nullptr;
    if (call == nullptr) {
      if (!callers.empty())
        w_.refuse(
            use,
            "this function is called with several datasets, but only one is for training; give training its own function");
      return stop(use);
    }
    const Node* given = nullptr;
    for (const Value& value : w_.names.values(place)) {
      if (is_inside(value.node, call)) given = value.node;
    }
    if (given == nullptr) return stop(use);
    if (!way.empty() && way.back() == call) way.pop_back();
    upstream(given, -1, way, depth + 1);
  }

  const KerasWeaving& w_;
  bool to_batches_;
  bool counts_ = false;
  PipelineSource source_;
  std::vector<const Node*> met_;
};

class EveryWay {
 public:
  explicit EveryWay(const KerasWeaving& weaving) : w_(weaving) {}

  PipelineSource follow(const Node* expression) {
    source_.expression = expression;
    upstream(expression);
    return source_;
  }

 private:
  void upstream(const Node* expression) {
    if (expression == nullptr || !seen_.insert(expression).second) return;
    if (expression->is(Kind::tuple) || expression->is(Kind::list)) {
      for (const Node* one : expression->list("elts")) upstream(one);
    }
    if (expression->is(Kind::if_exp)) {
      upstream(expression->child("body"));
      upstream(expression->child("orelse"));
    }
    if (expression->is(Kind::subscript)) upstream(expression->child("value"));
    for (const Value& value : w_.names.values(w_.names.place(expression))) {
      if (!value.node->is_function() && !value.node->is(Kind::class_def)) upstream(value.node);
    }
    if (const int place = w_.names.place(expression); place >= 0) appended(place);
    if (!expression->is(Kind::call)) return;
    const Node* function = expression->child("func");
    source_.shuffles = source_.shuffles || shuffles(expression);
    if (makes_batches(w_, expression)) source_.makers.push_back(expression);
    const Node* own = w_.names.definition(function);
    if (own != nullptr && own->is_function()) return returned(own);
    if (w_.names.callee(expression) == "tensorflow.data.Dataset.zip") {
      for (const Node* one : expression->list("args"))
        upstream(one->is(Kind::starred) ? one->child("value") : one);
    }
    if (!function->is(Kind::attribute)) return;
    if (is_batching(function->text)) source_.batches.push_back(expression);
    upstream(function->child("value"));
  }

  /// `ds.shuffle(…)`, `ds.apply(shuffle_and_repeat(…))`, `load(…, shuffle_files=True)`
  bool shuffles(const Node* call) const {
    bool found = call->child("func")->is(Kind::attribute) && call->child("func")->text.starts_with("shuffle");
    for (const std::string_view field : {"args", "keywords"}) {
      for (const Node* given : call->list(field)) {
        const bool by_name = given->is(Kind::keyword) && given->text.starts_with("shuffle") &&
                             given->child("value")->text != "False";
        const bool applied =
            given->is(Kind::call) && w_.names.callee(given).find(".shuffle") != std::string::npos;
        found = found || by_name || applied;
      }
    }
    return found;
  }

  void appended(int place) {
    for (const Node* mention : w_.names.mentions(place)) {
      const Node* call = mention->parent->parent;
      if (mention->parent->is(Kind::attribute) && mention->parent->text == "append" && call->is(Kind::call))
        upstream(call->list("args").empty() ? nullptr : call->list("args")[0]);
    }
  }

  void returned(const Node* own) {
    walk(*own, [&](const Node& node) {
      if (&node != own && node.is_function()) return false;
      if (node.is(Kind::return_)) upstream(node.child("value"));
      return true;
    });
  }

  const KerasWeaving& w_;
  PipelineSource source_;
  std::set<const Node*> seen_;
};

}  // namespace

PipelineSource follow_pipeline(const KerasWeaving& weaving, const Node* expression,
                               std::vector<const Node*>* met) {
  PipelineFollower follower(weaving);
  const auto keep = [&] {
    if (met != nullptr) *met = follower.met();
  };
  try {
    PipelineSource source = follower.follow(expression);
    keep();
    return source;
  } catch (const Refusal&) {
    keep();
    throw;
  }
}

PipelineSource follow_every_way(const KerasWeaving& weaving, const Node* expression) {
  return EveryWay(weaving).follow(expression);
}

MadeBatches batches_of(const KerasWeaving& weaving, const Node* expression) {
  PipelineFollower follower(weaving, true);
  try {
    const PipelineSource source = follower.follow(expression);
    const auto& found = source.batches.empty() ? source.makers : source.batches;
    return {found.empty() ? nullptr : found.front(), follower.counts()};
  } catch (const Refusal&) {
    return {};  // there are several ways
  }
}

}  // namespace telar::weave
