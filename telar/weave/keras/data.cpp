// Where a tf.data pipeline is divided among the processes: as late as possible, so splits and filters see all
// samples; but before shuffle, batch and repeat, so each process performs these on its own share.
#include <algorithm>
#include <unordered_set>

#include "telar/weave/keras/writer.h"

namespace telar::weave {

namespace {

/// The calls that lead into functions of the script on the way to a dataset; the innermost call is last.
using Way = std::vector<const Node*>;

/// The source of a pipeline: the expression to divide, and the calls of batch() downstream of it.
struct Source {
  const Node* expression = nullptr;
  std::vector<const Node*> batches;
  bool is_argument = false;  ///< arrays that are passed to a function which creates a dataset
};

class Follower {
 public:
  explicit Follower(KerasWeaving& weaving) : w_(weaving) {}

  Source follow(const Node* expression, const Way& way = {}) {
    source_ = {};
    upstream(expression, -1, way, 0);
    return source_;
  }
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
    if (method && keeps_order(function->text)) {
      if (function->text == "batch" || function->text == "padded_batch") source_.batches.push_back(call);
      return upstream(function->child("value"), -1, way, depth + 1);
    }
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
    upstream(last->node, last->part, way, depth + 1);
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

  KerasWeaving& w_;
  Source source_;
  std::vector<const Node*> met_;
};

std::string sharing_function(KerasWeaving& w, const Node* at) {
  std::string name = w.names.fresh("shard");
  const std::string tf = w.tensorflow(at);
  const std::string& hvd = w.dialect.module();
  w.dialect.function(
      {"def " + name + "(dataset):",
       "    # The same number of samples for each process; the remainder is left out.",
       "    samples = int(dataset.cardinality())", "    if samples == " + tf + ".data.UNKNOWN_CARDINALITY:",
       "        samples = int(dataset.reduce(" + tf + ".constant(0, " + tf +
           ".int64), lambda count, *sample: count + 1))",
       "    if samples != " + tf + ".data.INFINITE_CARDINALITY:",
       "        dataset = dataset.take(samples // " + hvd + ".size() * " + hvd + ".size())",
       "    return dataset.shard(" + hvd + ".size(), " + hvd + ".rank())"},
      at);
  return name;
}

void divide_batches(KerasWeaving& w, const std::vector<const Node*>& batches) {
  const bool multiply = w.dialect.is_tf_distribute() && w.grows();
  const bool divide = !w.dialect.is_tf_distribute() && !w.grows();
  if (!multiply && !divide) return;
  for (const Node* call : batches) {
    const Node* size = w.names.argument(call, "batch_size", 0);
    if (size == nullptr || !is_inside(size, call))
      w.refuse(call, "pass the size to batch() directly, so that it can be changed");
    if (!w.shared.insert(size).second) continue;
    const bool by_hand = multiply && w.program.fits.empty();
    if (by_hand && w.names.argument(call, "drop_remainder", 1) == nullptr) {
      w.edits.add_argument(*call, "drop_remainder=True");
      w.edits.explain(call->line, "drop_remainder=True",
                      "some replicas would get no part of a smaller last batch");
    }
    w.edits.replace(*size, multiply ? times(w.names.tree(), *size, w.dialect.size(size))
                                    : divided(w.names.tree(), *size, w.dialect.size(size)));
    w.edits.explain(
        call->line, multiply ? "batch × number of replicas" : "the batch is divided among the processes",
        multiply ? "each replica takes the script's batch" : "together they take the script's batch");
  }
}

bool shuffles(const KerasWeaving& w, const Node* expression) {
  bool found = false;
  walk(*expression, [&](const Node& node) {
    found = found || (node.is(Kind::attribute) && node.text == "shuffle");
    found = found || (node.is(Kind::keyword) && node.text == "shuffle");
    if (node.is(Kind::name) && !node.store) {
      for (const Value& value : w.names.values(w.names.place(&node))) {
        if (value.node->is(Kind::call) && value.node->begin < expression->begin &&
            is_dataset(w.names, value.node)) {
          found = found || shuffles(w, value.node);
        }
      }
    }
    return !found;
  });
  return found;
}

}  // namespace

void share_dataset(KerasWeaving& w, const Node* expression) {
  const Source source = Follower(w).follow(expression);
  divide_batches(w, source.batches);
  const Node* whole = source.expression;
  if (w.dialect.is_tf_distribute()) {
    if (source.batches.empty() && w.program.fits.empty())
      w.refuse(expression,
               "call batch() where weave can find it, so that all replicas get the same number of samples");
    if (shuffles(w, whole) || shuffles(w, expression)) w.draws_alike = true;
    if (w.grows()) w.shared.insert(whole);  // its batches are larger, so there are fewer
    return;
  }
  if (!w.shares_samples()) return;
  if (!w.shared.insert(whole).second) return;
  const std::string why = "each process takes its share of the samples";
  if (source.is_argument) {
    for (const Node* given : whole->list("args")) {
      // Sizes and flags are not samples.
      const auto origins = w.names.origins(given);
      const bool constant = std::all_of(origins.begin(), origins.end(),
                                        [](const Node* one) { return one->is(Kind::constant); });
      if (constant && !origins.empty()) continue;
      w.refuse(
          given,
          "it is not clear which of these arguments are samples; create the dataset for training separately");
    }
  }
  w.dialect.use(whole);
  w.edits.insert(whole->begin, sharing_function(w, whole) + "(");
  w.edits.insert(whole->end, ")");
  w.edits.explain(whole->line, "the dataset is divided among the processes", why);
  if (shuffles(w, whole)) w.draws_alike = true;
}

bool counts_shared(const KerasWeaving& w, const Node* expression) {
  bool found = false;
  const auto look = [&](const auto& self, const Node* within, int depth) -> void {
    walk(*within, [&](const Node& node) {
      if (found) return false;
      const Node* counted = nullptr;
      if (node.is(Kind::call) && w.names.qualified(node.child("func")) == "len" && !node.list("args").empty())
        counted = node.list("args")[0];
      if (node.is(Kind::call) && node.child("func")->is(Kind::attribute) &&
          node.child("func")->text == "cardinality")
        counted = node.child("func")->child("value");
      if (node.is(Kind::call) && w.names.callee(&node).ends_with("experimental.cardinality") &&
          !node.list("args").empty())
        counted = node.list("args")[0];
      if (counted != nullptr && is_dataset(w.names, counted)) {
        KerasWeaving copy{w.names, w.program, w.edits, w.dialect};
        Follower follower(copy);
        follower.follow(counted);
        for (const Node* met : follower.met()) found = found || w.shared.contains(met);
        return false;
      }
      if (node.is(Kind::name) && !node.store && depth > 0) {
        for (const Value& value : w.names.values(w.names.place(&node))) {
          if (!value.node->is(Kind::class_def) && !value.node->is_function())
            self(self, value.node, depth - 1);
        }
      }
      return true;
    });
  };
  look(look, expression, 4);
  return found;
}

}  // namespace telar::weave
