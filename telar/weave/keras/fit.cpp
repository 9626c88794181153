// Keras: fit() trains on a process's share of the samples, or for its share of the epochs. Only one process
// shows progress.
#include <algorithm>
#include <array>
#include <map>

#include "telar/weave/keras/writer.h"
#include "telar/weave/torch/program.h"

namespace telar::weave {

namespace {

constexpr const char* kShare = "each process takes its share of the samples";

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

bool is_none(const Node* node) { return node == nullptr || node->literal == Literal::null; }

bool is_generator(const Node* function) {
  bool yields = false;
  walk(*function, [&](const Node& node) {
    if (&node != function && node.is_function()) return false;
    yields = yields || node.is(Kind::yield);
    return !yields;
  });
  return yields;
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
      if (write_augmented(x) || write_sequence(call, x) || write_generator(call, x)) return;
      if (!is_array(x, 0))
        w_.refuse(
            x,
            "weave cannot determine what this is; it recognises arrays, a tf.data.Dataset, and a Sequence or generator that is created in this file");
    }
    write_batch(call);
    if (w_.dialect.is_tf_distribute() || !w_.shares_samples()) return;
    share(x);
    if (!is_none(y)) share(y);
    if (const Node* weight = argument(call, "sample_weight"); !is_none(weight)) share(weight);
    w_.edits.explain(call->line, "the arrays are divided among the processes", kShare);
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

  /// Divides each array of an argument, also in a list or dictionary of inputs.
  void share(const Node* value) {
    if (value->is(Kind::list) || value->is(Kind::tuple)) {
      for (const Node* one : value->list("elts")) share(one);
      return;
    }
    if (value->is(Kind::dict)) {
      for (const Node* one : value->list("values")) share(one);
      return;
    }
    for (const Node* origin : w_.names.origins(value)) {
      if (origin->is(Kind::dict) || origin->is(Kind::dict_comp) ||
          (origin->is(Kind::call) && w_.names.callee(origin) == "dict")) {
        w_.edits.insert(value->begin, "{name: " + function(value) + "(values) for name, values in ");
        w_.edits.insert(value->end, ".items()}");
        return;
      }
      if (origin->is(Kind::list))
        w_.refuse(
            value,
            "write this list of inputs directly in the call of fit(), so that each array can be divided");
    }
    w_.edits.insert(value->begin, function(value) + "(");
    w_.edits.insert(value->end, ")");
  }

  std::string function(const Node* at) {
    std::string name = w_.names.fresh("share");
    const std::string& hvd = w_.dialect.module();
    w_.dialect.function({"def " + name + "(values):",
                         "    # The same number of samples for each process; the remainder is left out.",
                         "    whole = len(values) // " + hvd + ".size() * " + hvd + ".size()",
                         "    return values[" + hvd + ".rank():whole:" + hvd + ".size()]"},
                        at);
    return name;
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

  /// Divides the images of an ImageDataGenerator: the arrays of flow(x, y), or the files of a folder.
  bool write_augmented(const Node* x) {
    bool found = false;
    for (const Node* origin : w_.names.origins(x)) {
      if (!origin->is(Kind::call) || !origin->child("func")->is(Kind::attribute)) continue;
      const Node* function = origin->child("func");
      if (!function->text.starts_with("flow")) continue;
      if (function->text != "flow" && function->text != "flow_from_directory")
        w_.refuse(
            origin,
            "weave does not know how to divide these files; use flow_from_directory(), or keras.utils.image_dataset_from_directory with a seed");
      if (w_.dialect.is_tf_distribute()) {
        if (!found && w_.grows()) enlarge(x);
        found = w_.is_for_one_host = true;
        continue;
      }
      const bool files = function->text == "flow_from_directory";
      if (files && w_.shares_samples() && !found) share_files(x);
      found = true;
      if (!w_.shared.insert(origin).second) continue;
      if (w_.shares_samples() && !files) {
        share(w_.names.argument(origin, "x", 0));
        if (const Node* y = w_.names.argument(origin, "y", 1); !is_none(y)) share(y);
      }
      if (!w_.grows()) {
        const Node* size = w_.names.argument(origin, "batch_size", files ? 5 : 2);
        if (size == nullptr || !is_inside(size, origin))
          w_.refuse(origin, "pass batch_size to it directly, so that it can be divided");
        w_.edits.replace(*size, divided(w_.names.tree(), *size, w_.dialect.size(size)));
      }
      if (!files) w_.edits.explain(origin->line, "the arrays are divided among the processes", kShare);
    }
    return found;
  }

  /// tf.distribute: gives fit() larger batches of the same images; the replicas take parts of them.
  void enlarge(const Node* x) {
    const std::string name = w_.names.fresh("larger_batches");
    w_.dialect.function(
        {"def " + name + "(images):", "    # The same images, in batches for all replicas together.",
         "    larger = " + w_.dialect.module_name("copy", x) + ".copy(images)",
         "    larger.batch_size *= " + w_.dialect.size(x), "    return larger"},
        x);
    w_.edits.insert(x->begin, name + "(");
    w_.edits.insert(x->end, ")");
    w_.edits.explain(x->line, name + "(…)", "each replica takes the script's batch");
  }

  /// Divides the files of flow_from_directory() where fit() receives them; what else uses them sees all.
  void share_files(const Node* x) {
    const std::string name = w_.names.fresh("SharedFiles");
    const std::string& hvd = w_.dialect.module();
    const std::string numpy = w_.dialect.module_name("numpy", x);
    w_.dialect.function(
        {"class " + name + "(" + w_.keras_module("utils", x) + ".Sequence):",
         "    # Each process takes its own files, the same number for each, in an order of its own.", "",
         "    def __init__(self, whole):", "        super().__init__()",
         "        self.whole = " + w_.dialect.module_name("copy", x) + ".copy(whole)",
         "        self.files = " + numpy + ".arange(" + hvd + ".rank(), whole.n // " + hvd + ".size() * " +
             hvd + ".size(), " + hvd + ".size())",
         "        self.on_epoch_end()", "",
         "    def __len__(self):", "        return -(-len(self.files) // self.whole.batch_size)", "",
         "    def __getitem__(self, index):", "        return self.whole[index]", "",
         "    def on_epoch_end(self):",
         "        self.whole.index_array = " + numpy +
             ".random.permutation(self.files) if self.whole.shuffle else self.files"},
        x);
    w_.edits.insert(x->begin, name + "(");
    w_.edits.insert(x->end, ")");
    w_.edits.explain(x->line, name + "(…)", "each process takes its share of the files");
  }

  /// For a Sequence class of the script, each process takes every n-th batch.
  bool write_sequence(const Node* call, const Node* x) {
    const Node* own = nullptr;
    for (const Node* origin : w_.names.origins(x)) {
      const Node* made = origin->is(Kind::call) ? w_.names.definition(origin->child("func")) : nullptr;
      if (made != nullptr && made->is(Kind::class_def) &&
          w_.names.derives(made, {"keras.utils.Sequence", "keras.utils.PyDataset"}))
        own = made;
    }
    if (own == nullptr) return false;
    if (w_.dialect.is_tf_distribute())
      w_.refuse(x, "tf.distribute distributes tf.data pipelines; convert this Sequence to a tf.data.Dataset");
    if (!w_.grows())
      w_.refuse(x, "a Sequence determines its batch size itself; weave without --global-batch keep");
    if (!w_.shares_samples()) return true;
    const std::string name = w_.names.fresh("SharedSequence");
    const std::string& hvd = w_.dialect.module();
    w_.dialect.function({"class " + name + "(" + base_of(own, call) + "):",
                         "    # Each process takes different batches, the same number for each.", "",
                         "    def __init__(self, whole):", "        self.whole = whole", "",
                         "    def __len__(self):", "        return len(self.whole) // " + hvd + ".size()", "",
                         "    def __getitem__(self, index):",
                         "        return self.whole[index * " + hvd + ".size() + " + hvd + ".rank()]", "",
                         "    def on_epoch_end(self):", "        self.whole.on_epoch_end()"},
                        call);
    w_.edits.insert(x->begin, name + "(");
    w_.edits.insert(x->end, ")");
    w_.edits.explain(call->line, "the batches of the Sequence are divided among the processes", kShare);
    w_.draws_alike = w_.streams_alike = true;
    return true;
  }

  std::string base_of(const Node* own, const Node* at) const {
    const std::string text = w_.text(*own->list("bases").front());
    const bool here = module_of(own) == module_of(at);
    return here && w_.names.definition(own->list("bases").front()) == nullptr
               ? text
               : w_.keras_module("utils", at) + ".Sequence";
  }

  /// For a Python generator, each process takes every n-th batch.
  bool write_generator(const Node* call, const Node* x) {
    bool yields = false;
    for (const Node* origin : w_.names.origins(x)) {
      const Node* own = origin->is(Kind::call) ? w_.names.definition(origin->child("func")) : nullptr;
      yields = yields || (own != nullptr && own->is_function() && is_generator(own)) ||
               origin->is(Kind::generator);
    }
    if (!yields) return false;
    if (w_.dialect.is_tf_distribute())
      w_.refuse(x,
                "tf.distribute distributes tf.data pipelines; create a tf.data.Dataset with from_generator");
    if (!w_.grows())
      w_.refuse(x, "a generator determines its batch size itself; weave without --global-batch keep");
    if (is_none(argument(call, "steps_per_epoch")))
      w_.refuse(call, "pass steps_per_epoch, because the number of batches of a generator is unknown");
    if (!w_.shares_samples()) return true;
    const std::string module = w_.dialect.module_name("itertools", call);
    const std::string& hvd = w_.dialect.module();
    w_.edits.insert(x->begin, module + ".islice(");
    w_.edits.insert(x->end, ", " + hvd + ".rank(), None, " + hvd + ".size())");
    w_.edits.explain(call->line, "each process takes different batches of the generator", kShare);
    w_.draws_alike = w_.streams_alike = true;
    return true;
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
