// Keras: wraps optimizers where a model is compiled, and finds the learning rates that are multiplied.
#include <algorithm>

#include "telar/weave/keras/writer.h"

namespace telar::weave {

namespace {

constexpr std::string_view kOptimizers = "keras.optimizers.";

/// The optimizer class for a name, and its default learning rate.
struct Known {
  std::string_view name;
  std::string_view made;
  std::string_view rate;
};
constexpr Known kKnown[] = {
    {"sgd", "SGD", "0.01"},          {"adam", "Adam", "0.001"},         {"rmsprop", "RMSprop", "0.001"},
    {"adagrad", "Adagrad", "0.001"}, {"adadelta", "Adadelta", "0.001"}, {"adamax", "Adamax", "0.001"},
    {"nadam", "Nadam", "0.001"},     {"ftrl", "Ftrl", "0.001"},         {"adamw", "AdamW", "0.001"}};

const Known* known(std::string name) {
  for (char& c : name) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c);
  const auto* found =
      std::find_if(std::begin(kKnown), std::end(kKnown), [&](const Known& one) { return one.name == name; });
  return found == std::end(kKnown) ? nullptr : found;
}

class Optimizers {
 public:
  explicit Optimizers(KerasWeaving& weaving) : w_(weaving) {}

  void write() {
    for (const KerasCall& compile : w_.program.compiles) write_compile(compile);
    // Those that the script applies itself, in a loop with a tape or in a train_step.
    for (const Node* call : w_.program.optimizers) {
      if (w_.program.fits.empty() || applies_by_hand(call)) scale_optimizer(call);
    }
    if (!w_.program.fits.empty() && w_.grows()) check_applied();
    if (w_.program.fits.empty()) check_known();
    write_assignments();
  }

 private:
  bool applies_by_hand(const Node* optimizer) const {
    return std::any_of(w_.names.calls().begin(), w_.names.calls().end(), [&](const Node* call) {
      const Node* function = call->child("func");
      if (!function->is(Kind::attribute) ||
          (function->text != "apply_gradients" && function->text != "apply"))
        return false;
      const auto origins = w_.names.origins(function->child("value"));
      return std::find(origins.begin(), origins.end(), optimizer) != origins.end();
    });
  }

  /// An optimizer that a train_step applies must be one whose rate is multiplied; `self.optimizer` is the one
  /// that compile() received.
  void check_applied() const {
    for (const Node* call : w_.names.calls()) {
      if (!is_apply(call) || class_of(call) == nullptr) continue;
      const Node* optimizer = call->child("func")->child("value");
      if (optimizer->is(Kind::attribute) && optimizer->text == "optimizer") continue;
      if (w_.names.origins(optimizer).empty())
        w_.refuse(
            call,
            "weave does not see where this optimizer is created, so its learning rate cannot be multiplied; pass it to the model's compile() or __init__");
    }
  }

  /// The optimizers that a loop of the script's own applies.
  void check_known() const {
    for (const Node* call : w_.names.calls()) {
      if (!is_apply(call)) continue;
      const auto origins = w_.names.origins(call->child("func")->child("value"));
      if (origins.empty() && w_.grows())
        w_.refuse(
            call,
            "weave does not see where this optimizer is created, so its learning rate cannot be multiplied; create it in this program");
      for (const Node* origin : origins) check_known(origin);
    }
  }

  void check_known(const Node* origin) const {
    if (std::find(w_.program.optimizers.begin(), w_.program.optimizers.end(), origin) !=
            w_.program.optimizers.end() ||
        origin->literal == Literal::null)
      return;
    const std::string callee = origin->is(Kind::call) ? w_.names.callee(origin) : "";
    if (callee.ends_with("LossScaleOptimizer")) return;
    const Node* own = origin->is(Kind::call) ? w_.names.definition(origin->child("func")) : nullptr;
    if (own != nullptr)
      w_.refuse(
          origin,
          "this is an optimizer of the script's own, of which weave knows neither the learning rate nor the state; derive it from one of keras.optimizers");
    w_.refuse(
        origin,
        "this optimizer is not known; create one of keras.optimizers, so that its learning rate can be determined");
  }

  bool trains(const KerasCall& compile) const {
    return std::any_of(w_.program.fits.begin(), w_.program.fits.end(), [&](const KerasCall& fit) {
      return may_be_same_model(w_.names, compile.model, fit.model);
    });
  }

  /// The call that gives Keras the optimizer: `super().compile(…)` if the model has its own compile(), and
  /// passes it there by name; otherwise the script's call of compile().
  const Node* compiling(const KerasCall& compile) const {
    if (compile.own_compile == nullptr) return compile.call;
    const Node* handed = nullptr;
    for (const Node* call : w_.names.calls()) {
      const Node* function = call->child("func");
      if (!is_inside(call, compile.own_compile) || !function->is(Kind::attribute) ||
          function->text != "compile")
        continue;
      const Node* receiver = function->child("value");
      if (receiver->is(Kind::call) && w_.names.qualified(receiver->child("func")) == "super") handed = call;
    }
    if (handed == nullptr)
      w_.refuse(compile.own_compile, "call super().compile(…) in it, which gives Keras the optimizer");
    const Node* given = w_.names.argument(handed, "optimizer", 0);
    if (given != nullptr && is_inside(given, handed)) return handed;
    for (const Node* one : handed->list("args")) {
      if (one->is(Kind::starred))
        w_.refuse(handed, "pass the optimizer to super().compile() by name, not through *");
    }
    const bool passes_on = std::any_of(handed->list("keywords").begin(), handed->list("keywords").end(),
                                       [](const Node* one) { return one->text.empty(); });
    if (passes_on) return compile.call;
    return compile.own_step ? nullptr : handed;  // without an optimizer: the step applies its own
  }

  void write_compile(const KerasCall& compile) {
    if (!trains(compile)) return;
    const Node* call = compiling(compile);
    w_.dialect.use(compile.call);
    if (call == nullptr || !compiled_.insert(call).second) return;
    // The positions of an own compile() are its own.
    const bool by_name_only = call == compile.call && compile.own_compile != nullptr;
    const Node* given = w_.names.argument(call, "optimizer", by_name_only ? -1 : 0);
    const bool wraps = w_.dialect.is_horovod() && !compile.own_step;
    if (given == nullptr) {
      w_.edits.add_argument(*call, "optimizer=" + wrapped(made("RMSprop", "0.001"), wraps));
      return explain(call, wraps);
    }
    if (!is_inside(given, call) && !is_option_of(w_, given, w_.program.compiles))
      w_.refuse(call, "pass the optimizer to compile() as a separate argument");
    auto origins = w_.names.origins(given);
    // `def fit(model, optimizer=None)`, and a default that is created there
    if (origins.size() > 1)
      std::erase_if(origins, [](const Node* one) { return one->literal == Literal::null; });
    const bool by_name = !origins.empty() && std::all_of(origins.begin(), origins.end(),
                                                         [](const Node* one) { return one->is_string(); });
    if (by_name) {
      if (origins.size() > 1)
        w_.refuse(
            given,
            "the optimizer is chosen at run time; create it with a learning rate, as in Adam(learning_rate=…)");
      const Known* one = known(std::string(origins[0]->text));
      if (one == nullptr)
        w_.refuse(given, "there is no known optimizer with this name; create it with a learning rate");
      if (!wrapped_.insert(given).second) return;
      w_.edits.replace(*given, wrapped(made(std::string(one->made), std::string(one->rate)), wraps));
      return explain(call, wraps);
    }
    if (origins.empty())
      w_.refuse(given,
                "the optimizer cannot be determined; create it in this file, as in Adam(learning_rate=…)");
    for (const Node* origin : origins) scale_optimizer(origin);
    if (!wraps) return;
    // A LossScaleOptimizer stays outermost.
    const Node* inner = origins.size() == 1 && origins[0]->is(Kind::call) &&
                                w_.names.callee(origins[0]).ends_with("LossScaleOptimizer")
                            ? w_.names.argument(origins[0], "inner_optimizer", 0)
                            : given;
    if (!wrapped_.insert(inner).second) return;
    w_.edits.insert(inner->begin, w_.dialect.module() + ".DistributedOptimizer(");
    w_.edits.insert(inner->end, ")");
    explain(call, true);
  }

  void explain(const Node* compile, bool wraps) {
    if (wraps)
      w_.edits.explain(compile->line, w_.dialect.module() + ".DistributedOptimizer(…)",
                       "averages the gradients of all processes in each step");
  }

  std::string made(const std::string& name, const std::string& rate) const {
    const std::string scaled =
        w_.grows() ? rate + " * " + w_.dialect.size(w_.program.compiles[0].call) : rate;
    return w_.keras_module("optimizers", w_.program.compiles[0].call) + "." + name +
           "(learning_rate=" + scaled + ")";
  }
  std::string wrapped(const std::string& text, bool wraps) const {
    return wraps ? w_.dialect.module() + ".DistributedOptimizer(" + text + ")" : text;
  }

  /// Multiplies the learning rate of an optimizer; `origin` creates it.
  void scale_optimizer(const Node* origin) {
    if (!done_.insert(origin).second) return;
    if (!origin->is(Kind::call))
      w_.refuse(origin,
                "the optimizer cannot be determined; create it in this file, as in Adam(learning_rate=…)");
    const std::string callee = w_.names.callee(origin);
    if (callee.ends_with("LossScaleOptimizer")) {
      const Node* inner = w_.names.argument(origin, "inner_optimizer", 0);
      for (const Node* one : w_.names.origins(inner)) scale_optimizer(one);
      return;
    }
    if (callee == "keras.optimizers.get" || callee == "keras.optimizers.deserialize" ||
        callee.ends_with(".from_config"))
      return scale_config(origin);
    const Node* own = w_.names.definition(origin->child("func"));
    if (own != nullptr && own->is(Kind::class_def)) {
      if (const std::string base = optimizer_base(w_.names, own); !base.empty())
        return scale_own_optimizer(origin, own, base);
    }
    const bool one_of_ours = callee.starts_with(kOptimizers) ||
                             callee.starts_with("tensorflow_addons.optimizers.") ||
                             callee == "tensorflow.compat.v1.train.AdamOptimizer";
    if (!one_of_ours)
      w_.refuse(
          origin,
          "this optimizer is not known; create one of keras.optimizers, so that its learning rate can be determined");
    if (!w_.grows()) {
      return;
    }
    const Node* rate = w_.names.argument(origin, "learning_rate", 0);
    if (rate == nullptr) rate = w_.names.argument(origin, "lr", -1);
    if (rate != nullptr) return scale_keras_rate(w_, rate);
    const bool spread = std::any_of(origin->list("keywords").begin(), origin->list("keywords").end(),
                                    [](const Node* one) { return one->text.empty(); });
    const Known* one = known(callee.substr(callee.rfind('.') + 1));
    if (spread || one == nullptr) refuse_rate(origin);
    add_rate(origin, "learning_rate", std::string(one->rate));
  }

  [[noreturn]] void refuse_rate(const Node* origin) const {
    w_.refuse(
        origin,
        "its learning rate cannot be determined; pass it as learning_rate=…, or weave with --global-batch keep");
  }

  /// Passes the default rate of an optimizer, multiplied.
  void add_rate(const Node* origin, const std::string& name, const std::string& rate) {
    w_.edits.add_argument(*origin, name + "=" + rate + " * " + w_.dialect.size(origin));
    w_.edits.explain(origin->line, "learning rate × number of processes", kWhyRatesGrow);
  }

  /// An optimizer class of the script: its rate is a parameter of its own __init__ or of its base's. A rate
  /// that __init__ computes cannot be multiplied there: Keras creates optimizers anew from their settings.
  void scale_own_optimizer(const Node* origin, const Node* own, const std::string& base) {
    const Node* init = w_.names.method(own, "__init__");
    if (init != nullptr && w_.dialect.is_horovod()) check_configuration(own, init);
    if (!w_.grows()) return;
    if (init == nullptr) {
      const Node* rate = w_.names.argument(origin, "learning_rate", 0);
      if (rate == nullptr) rate = w_.names.argument(origin, "lr", -1);
      if (rate != nullptr) return scale_keras_rate(w_, rate);
      const Known* one = known(base.substr(base.rfind('.') + 1));
      if (one == nullptr) refuse_rate(origin);
      return add_rate(origin, "learning_rate", std::string(one->rate));
    }
    const Node* arguments = init->child("args");
    const Nodes parameters = arguments->list("args");
    const Nodes defaults = arguments->list("defaults");
    for (size_t i = 1; i < parameters.size(); ++i) {
      const std::string name(parameters[i]->text);
      if (name != "learning_rate" && name != "lr") continue;
      if (const Node* rate = w_.names.argument(origin, name, static_cast<int>(i) - 1))
        return scale_keras_rate(w_, rate);
      const size_t first = parameters.size() - defaults.size();
      if (i < first || defaults[i - first]->literal != Literal::number) refuse_rate(origin);
      return add_rate(origin, name, w_.text(*defaults[i - first]));
    }
    w_.refuse(
        init,
        "give it a parameter learning_rate, by which the rate can be multiplied where the optimizer is created");
  }

  /// Horovod creates its optimizer from the configuration of the script's.
  void check_configuration(const Node* own, const Node* init) const {
    if (w_.names.method(own, "get_config") != nullptr) return;
    for (const Node* parameter : init->child("args")->list("args")) {
      const std::string_view name = parameter->text;
      const bool known_to_base =
          parameter == init->child("args")->list("args")[0] || name == "learning_rate" || name == "name";
      if (!known_to_base)
        w_.refuse(
            parameter,
            "give this optimizer's class a get_config() method that contains it, because Horovod creates its optimizer from the configuration");
    }
  }

  /// keras.optimizers.get({"class_name": …, "config": {"learning_rate": …}}), Adam.from_config({…}),
  /// get("adam").
  void scale_config(const Node* call) {
    if (!w_.grows()) return;
    const Node* config = call->list("args").empty() ? nullptr : call->list("args")[0];
    bool found = false;
    if (config != nullptr) {
      for (const Node* origin : w_.names.origins(config)) {
        walk(*origin, [&](const Node& node) {
          if (!node.is(Kind::dict)) return true;
          for (size_t i = 0; i < node.list("keys").size(); ++i) {
            const Node* key = node.list("keys")[i];
            if (key == nullptr || (key->text != "learning_rate" && key->text != "lr")) continue;
            scale_keras_rate(w_, node.list("values")[i]);
            found = true;
          }
          return true;
        });
      }
    }
    if (!found)
      w_.refuse(call, "its learning rate cannot be determined; add \"learning_rate\" to the config");
  }

  /// `model.optimizer.learning_rate = 0.01`, `optimizer.learning_rate.assign(…)`, K.set_value(optimizer.lr,
  /// …).
  void write_assignments() {
    if (!w_.grows()) return;
    const auto is_rate = [](const Node* node) {
      return node->is(Kind::attribute) && (node->text == "learning_rate" || node->text == "lr") &&
             w_is_optimizer(node->child("value"));
    };
    const auto relative = [&](const Node* value) {
      bool found = false;
      walk(*value, [&](const Node& node) {
        found = found || (node.is(Kind::attribute) && (node.text == "learning_rate" || node.text == "lr"));
        return !found;
      });
      return found;
    };
    for (const Node& node : w_.names.tree().nodes()) {
      if (node.is(Kind::assign) && is_rate(node.list("targets")[0]) && !relative(node.child("value")))
        scale_keras_rate(w_, node.child("value"));
    }
    for (const Node* call : w_.names.calls()) {
      const Node* function = call->child("func");
      const auto& given = call->list("args");
      if (w_.names.callee(call) == "keras.backend.set_value" && given.size() == 2 && is_rate(given[0]) &&
          !relative(given[1]))
        scale_keras_rate(w_, given[1]);
      if (function->is(Kind::attribute) && function->text == "assign" && is_rate(function->child("value")) &&
          given.size() == 1 && !relative(given[0])) {
        scale_keras_rate(w_, given[0]);
      }
    }
  }

  static bool w_is_optimizer(const Node* node) { return node->text.find("opt") != std::string::npos; }

  KerasWeaving& w_;
  std::set<const Node*> done_;
  std::set<const Node*> wrapped_;
  std::set<const Node*> compiled_;
};

}  // namespace

void write_keras_optimizers(KerasWeaving& weaving) { Optimizers(weaving).write(); }

}  // namespace telar::weave
