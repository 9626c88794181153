// Where a tf.data pipeline is divided among the processes: as late as possible, so splits and filters see all
// samples; but before shuffle, batch and repeat, so each process performs these on its own share. If what is
// divided there would also be used for other things (a vocabulary, validation), the batches are divided where
// training receives them.
#include <algorithm>
#include <set>
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
  std::vector<const Node*> makers = {};  ///< calls which make batches of files or of a series
  bool is_argument = false;              ///< arrays that are passed to a function which creates a dataset
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
    if (batch_argument(w_.names.callee(call)) != nullptr) source_.makers.push_back(call);
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
    if (last->part >= 0 && last->node->is(Kind::call) && !returns_tuple(last->node)) {
      // One of several datasets that a library returns, or that are in a list.
      met_.push_back(last->node);
      if (batch_argument(w_.names.callee(last->node)) != nullptr) source_.makers.push_back(last->node);
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
       "    # The same number of elements for each process; the remainder is left out.",
       "    samples = int(dataset.cardinality())", "    if samples == " + tf + ".data.UNKNOWN_CARDINALITY:",
       "        samples = int(dataset.reduce(" + tf + ".constant(0, " + tf +
           ".int64), lambda count, *sample: count + 1))",
       "    if samples != " + tf + ".data.INFINITE_CARDINALITY:",
       "        dataset = dataset.take(samples // " + hvd + ".size() * " + hvd + ".size())",
       "    return dataset.shard(" + hvd + ".size(), " + hvd + ".rank())"},
      at);
  return name;
}

/// Multiplies or divides the size of batches: an argument of `call`, or its default.
class BatchSizes {
 public:
  explicit BatchSizes(KerasWeaving& weaving) : w_(weaving) {}

  /// Whether sizes change at all.
  bool change() const { return multiply() || divide(); }

  void write(const Source& source) {
    if (!change()) return;
    for (const Node* call : source.batches) write_batch(call);
    for (const Node* call : source.makers) write_maker(call);
  }

 private:
  bool multiply() const { return w_.dialect.is_tf_distribute() && w_.grows(); }
  bool divide() const { return !w_.dialect.is_tf_distribute() && !w_.grows(); }

  void write_batch(const Node* call) {
    const Node* size = w_.names.argument(call, "batch_size", 0);
    if (size == nullptr || !is_inside(size, call))
      w_.refuse(call, "pass the size to batch() directly, so that it can be changed");
    if (!w_.shared.insert(size).second) return;
    const bool by_hand = multiply() && w_.program.fits.empty();
    if (by_hand && w_.names.argument(call, "drop_remainder", 1) == nullptr) {
      w_.edits.add_argument(*call, "drop_remainder=True");
      w_.edits.explain(call->line, "drop_remainder=True",
                       "some replicas would get no part of a smaller last batch");
    }
    replace(call, size);
  }

  void write_maker(const Node* call) {
    const BatchArgument* known = batch_argument(w_.names.callee(call));
    if (known == nullptr || !w_.shared.insert(call).second) return;
    const Node* size = w_.names.argument(call, "batch_size", known->position);
    if (size == nullptr) {
      w_.edits.add_argument(*call, "batch_size=" + std::string(known->standard) +
                                       (multiply() ? " * " : " // ") + w_.dialect.size(call));
      return explain(call);
    }
    if (size->literal == Literal::null) return;  // single samples
    if (!is_inside(size, call))
      w_.refuse(call, "pass batch_size to this call directly, so that it can be changed");
    if (w_.shared.insert(size).second) replace(call, size);
  }

  void replace(const Node* call, const Node* size) {
    w_.edits.replace(*size, multiply() ? times(w_.names.tree(), *size, w_.dialect.size(size))
                                       : divided(w_.names.tree(), *size, w_.dialect.size(size)));
    explain(call);
  }

  void explain(const Node* call) {
    w_.edits.explain(
        call->line, multiply() ? "batch × number of replicas" : "the batch is divided among the processes",
        multiply() ? "each replica takes the script's batch" : "together they take the script's batch");
  }

  KerasWeaving& w_;
};

/// Finds the batches of a pipeline on every way by which a dataset may come to an expression: through all
/// assignments of a variable, all values that a function returns, and all its callers.
class EveryWay {
 public:
  explicit EveryWay(const KerasWeaving& weaving) : w_(weaving) {}

  Source follow(const Node* expression) {
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
    if (batch_argument(w_.names.callee(expression)) != nullptr) source_.makers.push_back(expression);
    const Node* own = w_.names.definition(function);
    if (own != nullptr && own->is_function()) return returned(own);
    if (!function->is(Kind::attribute)) return;
    if (function->text == "batch" || function->text == "padded_batch") source_.batches.push_back(expression);
    upstream(function->child("value"));
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
  Source source_;
  std::set<const Node*> seen_;
};

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

namespace {

/// The datasets of a program that are not trained on: of validation, evaluation, a preprocessing layer.
std::vector<const Node*> other_datasets(const KerasWeaving& w) {
  std::vector<const Node*> found;
  for (const KerasCall& fit : w.program.fits)
    found.push_back(w.names.argument(fit.call, "validation_data", 7));
  for (const KerasCall& evaluation : w.program.evaluations)
    found.push_back(w.names.argument(evaluation.call, "x", 0));
  for (const Node* call : w.names.calls()) {
    const Node* function = call->child("func");
    if (function->is(Kind::attribute) && function->text == "adapt" && !call->list("args").empty())
      found.push_back(call->list("args")[0]);
  }
  for (const KerasLoop& loop : w.program.loops) {
    // A loop over a few batches only looks at them.
    const bool looks = loop.dataset->is(Kind::call) && loop.dataset->child("func")->is(Kind::attribute) &&
                       loop.dataset->child("func")->text == "take";
    if (w.program.fits.empty() && !loop.trains && !looks) found.push_back(loop.dataset);
  }
  std::erase_if(found, [&](const Node* one) { return one == nullptr || !is_dataset(w.names, one); });
  return found;
}

/// Whether a dataset that is not trained on is made from `whole`.
bool is_used_otherwise(KerasWeaving& w, const Node* whole) {
  for (const Node* other : other_datasets(w)) {
    Follower follower(w);
    try {
      follower.follow(other);
    } catch (const Refusal&) {
      // What was met until then decides: behind it, other datasets are possible.
    }
    const auto& met = follower.met();
    if (std::find(met.begin(), met.end(), whole) != met.end()) return true;
  }
  return false;
}

/// In a loop of the script's own, sums over a process's batches must not be divided by the number of all.
void check_not_counted(const KerasWeaving& w, const Node* expression) {
  const int place = w.names.place(expression);
  for (const Node* call : w.names.calls()) {
    const auto& given = call->list("args");
    const bool counts = w.names.qualified(call->child("func")) == "len" && !given.empty() && place >= 0 &&
                        w.names.place(given[0]) == place;
    if (counts)
      w.refuse(
          call,
          "this counts the batches of all processes, but the loop sees those of one; count them in the loop");
  }
}

/// Divides the elements of a dataset where it is used for training.
void share_there(KerasWeaving& w, const Node* expression) {
  if (expression->inside_fstring) w.refuse(expression, "move the dataset out of the f-string");
  if (!w.shared.insert(expression).second) return;
  if (w.program.fits.empty()) check_not_counted(w, expression);
  w.dialect.use(expression);
  w.edits.insert(expression->begin, sharing_function(w, expression) + "(");
  w.edits.insert(expression->end, ")");
  w.edits.explain(expression->line,
                  "the batches are divided among the processes where training receives them",
                  "before, the dataset is also used for other things, which must see all samples");
  w.draws_alike = true;
}

}  // namespace

void share_dataset(KerasWeaving& w, const Node* expression) {
  Source source;
  bool is_ambiguous = false;
  try {
    source = Follower(w).follow(expression);
  } catch (const Refusal&) {
    // A loop of the script's own under tf.distribute leaves out incomplete batches, which only training may.
    if (w.dialect.is_tf_distribute() && w.program.fits.empty()) throw;
    source = EveryWay(w).follow(expression);
    is_ambiguous = true;
  }
  BatchSizes sizes(w);
  if (sizes.change() && w.dialect.is_tf_distribute() && source.batches.empty() && source.makers.empty())
    source = EveryWay(w).follow(expression);
  const bool sees_batches = !source.batches.empty() || !source.makers.empty();
  const bool must_see = w.dialect.is_tf_distribute() || is_ambiguous;
  if (sizes.change() && must_see && !sees_batches)
    w.refuse(
        expression,
        "weave does not see where the batches of this dataset are made, so it cannot change their size; call batch() in this program");
  sizes.write(source);
  const Node* whole = source.expression;
  if (w.dialect.is_tf_distribute()) {
    if (source.batches.empty() && w.program.fits.empty())
      w.refuse(expression,
               "call batch() where weave can find it, so that all replicas get the same number of samples");
    if (is_ambiguous || shuffles(w, whole) || shuffles(w, expression)) w.draws_alike = true;
    if (w.grows()) w.shared.insert(whole);  // its batches are larger, so there are fewer
    return;
  }
  if (!w.shares_samples() || w.shared.contains(whole)) return;
  if (is_ambiguous || source.is_argument || is_used_otherwise(w, whole)) return share_there(w, expression);
  w.shared.insert(whole);
  const std::string why = "each process takes its share of the samples";
  w.dialect.use(whole);
  w.edits.insert(whole->begin, sharing_function(w, whole) + "(");
  w.edits.insert(whole->end, ")");
  w.edits.explain(whole->line, "the dataset is divided among the processes", why);
  if (shuffles(w, whole)) w.draws_alike = true;
}

namespace {

/// Whether the size of a dataset's batches is changed.
bool has_changed_batches(const KerasWeaving& w, const Node* dataset) {
  const Source source = EveryWay(w).follow(dataset);
  return std::any_of(
             source.batches.begin(), source.batches.end(),
             [&](const Node* call) { return w.shared.contains(w.names.argument(call, "batch_size", 0)); }) ||
         std::any_of(source.makers.begin(), source.makers.end(),
                     [&](const Node* call) { return w.shared.contains(call); });
}

}  // namespace

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
      if (counted != nullptr && is_dataset(w.names, counted) && w.dialect.is_tf_distribute()) {
        found = found || has_changed_batches(w, counted);
        return false;
      }
      if (counted != nullptr && is_dataset(w.names, counted)) {
        KerasWeaving copy{w.names, w.program, w.edits, w.dialect};
        Follower follower(copy);
        try {
          follower.follow(counted);
        } catch (const Refusal&) {
          return false;  // it is divided only where training receives it
        }
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
