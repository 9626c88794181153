// Keras: fit() trains on a process's share of the samples, or for its share of the epochs. Only one process
// shows progress.
#include <algorithm>
#include <array>
#include <map>

#include "telar/weave/keras/writer.h"
#include "telar/weave/torch/program.h"

namespace telar::weave {

namespace {

/// The position of an argument of fit() or fit_generator().
int position_of(const Node* call, std::string_view name) {
  static const std::map<std::string_view, int> fit = {{"x", 0},
                                                      {"y", 1},
                                                      {"batch_size", 2},
                                                      {"epochs", 3},
                                                      {"verbose", 4},
                                                      {"callbacks", 5},
                                                      {"validation_split", 6},
                                                      {"validation_data", 7},
                                                      {"sample_weight", 10},
                                                      {"initial_epoch", 11},
                                                      {"steps_per_epoch", 12}};
  static const std::map<std::string_view, int> generator = {{"generator", 0}, {"steps_per_epoch", 1},
                                                            {"epochs", 2},    {"verbose", 3},
                                                            {"callbacks", 4}, {"validation_data", 5}};
  const auto& table = call->child("func")->text == "fit" ? fit : generator;
  const auto found = table.find(name);
  return found == table.end() ? -1 : found->second;
}

std::string function_to_share(KerasWeaving& w, const Node* at) {
  std::string name = w.names.fresh("share");
  const std::string& hvd = w.dialect.module();
  w.dialect.function({"def " + name + "(values):",
                      "    # The same number of samples for each process; the remainder is left out.",
                      "    whole = len(values) // " + hvd + ".size() * " + hvd + ".size()",
                      "    return values[" + hvd + ".rank():whole:" + hvd + ".size()]"},
                     at);
  return name;
}

class Fits {
 public:
  explicit Fits(KerasWeaving& weaving) : w_(weaving) {}

  void write() {
    for (const KerasCall& fit : w_.program.fits) write(fit);
    for (const KerasCall& evaluation : w_.program.evaluations) write_evaluation(evaluation);
  }

 private:
  const Node* argument(const Node* call, std::string_view name) const {
    return w_.names.argument(call, name, position_of(call, name));
  }

  void write(const KerasCall& fit) {
    const Node* call = fit.call;
    w_.dialect.use(call);
    for (const Node* given : call->list("args")) {
      if (given->is(Kind::starred))
        w_.refuse(given, "name the arguments of fit(), so that the data can be identified");
    }
    for (const Node* given : call->list("keywords")) check_spread(call, given);
    // Its brackets come before what is added after the last argument.
    const bool one_callback = write_one_keras_callback(w_, fit);
    write_data(call);
    write_epochs(call);
    write_verbose(call, position_of(call, "verbose"));
    if (!one_callback) write_keras_callbacks(w_, fit);
  }

  /// For `fit(x, y, **options)`, the options must be known, and must not contain an argument that weave
  /// changes.
  void check_spread(const Node* call, const Node* given) const {
    if (!given->text.empty()) return;
    for (const std::string_view name :
         {"x", "y", "batch_size", "epochs", "verbose", "callbacks", "steps_per_epoch", "sample_weight"}) {
      const Node* value = w_.names.argument(call, name, -1);
      const bool stays =
          (name == "epochs" && !w_.dialect.choices().divide_epochs) ||
          (name == "batch_size" && (!changes_batches() || is_option_of(w_, value, w_.program.fits)));
      if (value != nullptr && !is_inside(value, call) && !stays)
        w_.refuse(given, "give " + std::string(name) + " to fit() directly, not through **");
    }
    for (const Node* origin : w_.names.origins(given->child("value"))) {
      if (origin->is(Kind::dict) || (origin->is(Kind::call) && w_.names.callee(origin) == "dict")) return;
    }
    w_.refuse(given, "these arguments cannot be determined; pass them to fit() directly");
  }

  bool changes_batches() const { return w_.dialect.is_tf_distribute() == w_.grows(); }

  void write_data(const Node* call) {
    const Node* x = argument(call, call->child("func")->text == "fit" ? "x" : "generator");
    if (x == nullptr)
      w_.refuse(call, "the training data cannot be determined; pass them as the first argument");
    const Node* y = argument(call, "y");
    if (is_none(y)) {
      if (is_dataset(w_.names, x)) {
        if (const std::string joined = share_dataset(w_, x); !joined.empty()) w_.edits.insert(x->end, joined);
        return;
      }
      const Node* steps = argument(call, "steps_per_epoch");
      if (write_python_data(w_, call, x, !is_none(steps))) return;
      if (!is_array(x, 0))
        w_.refuse(
            x,
            "weave cannot determine what this is; it recognises arrays, a tf.data.Dataset, and a Sequence or generator that is created in this file");
    }
    if (is_drawn(w_, x) || (!is_none(y) && is_drawn(w_, y))) w_.draws_alike = true;
    write_batch(call);
    if (w_.dialect.is_tf_distribute() || !w_.shares_samples()) return;
    share_arrays(w_, x);
    if (!is_none(y)) share_arrays(w_, y);
    if (const Node* weight = argument(call, "sample_weight"); !is_none(weight)) share_arrays(w_, weight);
    w_.edits.explain(call->line, "the arrays are divided among the processes", kWhyShare);
  }

  /// Whether an expression is an array or a tensor, or a list or dictionary of them.
  bool is_array(const Node* expression, int depth) const {
    static constexpr std::array<std::string_view, 12> kMethods = {
        "astype", "reshape", "copy", "transpose", "squeeze", "numpy",
        "clip",   "ravel",   "take", "swapaxes",  "flatten", "round"};
    static constexpr std::array<std::string_view, 7> kModules = {"numpy.",
                                                                 "keras.datasets.",
                                                                 "keras.utils.to_categorical",
                                                                 "keras.utils.pad_sequences",
                                                                 "tensorflow.random.",
                                                                 "tensorflow.concat",
                                                                 "tensorflow.constant"};
    if (depth > 8) return false;
    if (expression->is(Kind::subscript) && is_array(expression->child("value"), depth + 1)) return true;
    const std::vector<const Node*> origins = w_.names.origins(expression);
    return std::any_of(origins.begin(), origins.end(), [&](const Node* origin) {
      if (origin->is(Kind::dict) || origin->is(Kind::list) || origin->is(Kind::bin_op)) return true;
      if (!origin->is(Kind::call)) return false;
      const std::string callee = w_.names.callee(origin);
      if (std::any_of(kModules.begin(), kModules.end(),
                      [&](std::string_view module) { return callee.starts_with(module); }))
        return true;
      const Node* function = origin->child("func");
      return function->is(Kind::attribute) &&
             std::find(kMethods.begin(), kMethods.end(), function->text) != kMethods.end() &&
             is_array(function->child("value"), depth + 1);
    });
  }

  /// If the data are arrays, fit() creates the batches.
  void write_batch(const Node* call) {
    if (!changes_batches()) return;
    const bool multiply = w_.grows();
    const Node* size = argument(call, "batch_size");
    const std::string n = w_.dialect.size(call);
    if (size != nullptr && !w_.shared.insert(size).second) return;
    if (is_none(size)) {
      w_.edits.add_argument(*call, "batch_size=32 " + std::string(multiply ? "* " : "// ") + n);
    } else {
      w_.edits.replace(*size,
                       multiply ? times(w_.names.tree(), *size, n) : divided(w_.names.tree(), *size, n));
    }
    w_.edits.explain(
        call->line, multiply ? "batch × number of replicas" : "the batch is divided among the processes",
        multiply ? "each replica takes the script's batch" : "together they take the script's batch");
  }

  void write_epochs(const Node* call) {
    const Node* steps = argument(call, "steps_per_epoch");
    const Node* epochs = argument(call, "epochs");
    if (w_.dialect.choices().divide_epochs) {
      if (const Node* first = argument(call, "initial_epoch"); first != nullptr && first->text != "0") {
        w_.refuse(
            first,
            "the number of remaining epochs cannot be divided among the processes; weave with --epochs keep");
      }
      if (is_none(epochs))
        w_.refuse(call, "it trains for one epoch, which cannot be divided; weave with --epochs keep");
      if (!w_.shared.insert(epochs).second) return;
      if (!is_inside(epochs, call)) w_.refuse(call, "pass the epochs to fit() directly");
      const std::string math = w_.dialect.module_name("math", call);
      w_.edits.replace(*epochs,
                       math + ".ceil(" + quotient(w_.names.tree(), *epochs, w_.dialect.size(call)) + ")");
      w_.edits.explain(call->line, "epochs ÷ number of processes",
                       "each process sees all samples, so together they see each sample as often as before");
      return;
    }
    if (is_none(steps) || !w_.grows() || counts_shared(w_, steps)) return;
    if (!is_inside(steps, call)) w_.refuse(call, "pass steps_per_epoch to fit() directly");
    w_.edits.replace(*steps, divided(w_.names.tree(), *steps, w_.dialect.size(call)));
    w_.edits.explain(call->line, "steps_per_epoch ÷ number of processes",
                     "an epoch sees as many samples as before");
  }

  void write_verbose(const Node* call, int position) {
    const Node* verbose = w_.names.argument(call, "verbose", position);
    if (verbose != nullptr && (verbose->text == "0" || !is_inside(verbose, call))) return;
    const std::string when = " if " + w_.dialect.is_first(call) + " else 0";
    if (verbose == nullptr) {
      w_.edits.add_argument(*call, "verbose=1" + when);
    } else {
      const bool plain =
          verbose->is(Kind::constant) || verbose->is(Kind::name) || verbose->is(Kind::attribute);
      w_.edits.replace(*verbose, (plain ? w_.text(*verbose) : "(" + w_.text(*verbose) + ")") + when);
    }
    w_.edits.explain(call->line, "only rank 0 shows its progress", "one bar, not one for each process");
  }

  /// All processes evaluate all samples, so they make the same decisions.
  void write_evaluation(const KerasCall& evaluation) {
    const Node* call = evaluation.call;
    const std::string_view method = call->child("func")->text;
    if (method.ends_with("_generator")) return;
    write_verbose(call, method == "evaluate" ? 3 : 2);
  }

  KerasWeaving& w_;
};

}  // namespace

void share_arrays(KerasWeaving& w, const Node* value) {
  if (value->is(Kind::list) || value->is(Kind::tuple)) {
    for (const Node* one : value->list("elts")) share_arrays(w, one);
    return;
  }
  if (value->is(Kind::dict)) {
    for (const Node* one : value->list("values")) share_arrays(w, one);
    return;
  }
  for (const Node* origin : w.names.origins(value)) {
    if (origin->is(Kind::dict) || origin->is(Kind::dict_comp) ||
        (origin->is(Kind::call) && w.names.callee(origin) == "dict")) {
      w.edits.insert(value->begin, "{name: " + function_to_share(w, value) + "(values) for name, values in ");
      w.edits.insert(value->end, ".items()}");
      return;
    }
    if (origin->is(Kind::list))
      w.refuse(value,
               "write this list of inputs directly in the call of fit(), so that each array can be divided");
  }
  w.edits.insert(value->begin, function_to_share(w, value) + "(");
  w.edits.insert(value->end, ")");
}

bool is_option_of(const KerasWeaving& w, const Node* value, const std::vector<KerasCall>& calls) {
  if (value == nullptr) return false;
  const Node* table = value->parent->is(Kind::keyword) ? value->parent->parent : value->parent;
  const Node* statement = statement_of(table);
  if (!statement->is(Kind::assign) || statement->child("value") != table) return false;
  const auto& mentions = w.names.mentions(w.names.place(statement->list("targets")[0]));
  return std::all_of(mentions.begin(), mentions.end(), [&](const Node* mention) {
    const Node* passed = mention->parent;
    const bool spreads = passed->is(Kind::keyword) && passed->text.empty();
    return mention->store || (spreads && std::any_of(calls.begin(), calls.end(), [&](const KerasCall& one) {
                                return one.call == passed->parent;
                              }));
  });
}

void write_keras_fits(KerasWeaving& weaving) { Fits(weaving).write(); }

}  // namespace telar::weave
