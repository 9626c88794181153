// Reads a Keras or TensorFlow script: its compiled and fitted models, its optimizers, and its loops with a
// tape.
#include "telar/weave/keras/program.h"

#include <algorithm>
#include <unordered_set>

#include "telar/weave/torch/program.h"

namespace telar::weave {

namespace {

/// TensorFlow's own files import its internal modules; they train nothing.
bool imports_keras(const Names& names) {
  bool found = false;
  for (const auto& [module, statement] : names.imports()) {
    if (module.starts_with("tensorflow.python.") && !module.starts_with("tensorflow.python.keras"))
      return false;
    found = found || module == "keras" || module.starts_with("keras.") || module == "tensorflow" ||
            module.starts_with("tensorflow.") || module.starts_with("tf_keras");
  }
  return found;
}

bool is_tape(const std::string& callee) { return callee == "tensorflow.GradientTape"; }

/// Whether `callee` is an optimizer class, such as keras.optimizers.Adam.
bool makes_optimizer(const std::string& callee) {
  constexpr std::string_view prefix = "keras.optimizers.";
  if (!callee.starts_with(prefix) || callee.size() == prefix.size()) return false;
  const char first = callee[prefix.size()];
  return callee.find('.', prefix.size()) == std::string::npos && first >= 'A' && first <= 'Z';
}

bool makes_model(const std::string& callee) {
  static const std::unordered_set<std::string_view> makers = {
      "keras.Sequential",         "keras.Model",
      "keras.models.Sequential",  "keras.models.Model",
      "keras.models.load_model",  "keras.Functional",
      "keras.models.clone_model", "keras.models.model_from_json"};
  return makers.contains(callee) ||
         (callee.starts_with("keras.applications.") && callee.find('_') == std::string::npos);
}

class KerasReader {
 public:
  explicit KerasReader(const Names& names) : names_(names) {}

  KerasProgram read() {
    for (const auto& [module, statement] : names_.imports()) {
      program_.standalone = program_.standalone || module == "keras" || module.starts_with("keras.");
    }
    for (const Node* call : names_.calls()) read_class(call);
    for (const Node* call : names_.calls()) read_method(call, "compile");
    for (const Node* call : names_.calls()) read_method(call, "");
    for (const Node& node : names_.tree().nodes()) {
      if (node.is(Kind::with)) read_tape(node);
    }
    for (const Node& node : names_.tree().nodes()) {
      if (node.is(Kind::for_)) read_loop(node);
    }
    std::sort(program_.loops.begin(), program_.loops.end(),
              [](const KerasLoop& a, const KerasLoop& b) { return a.loop->begin < b.loop->begin; });
    check();
    return std::move(program_);
  }

 private:
  [[noreturn]] void refuse(const Node* node, const std::string& decision) const {
    throw Refusal{node->line, std::string(names_.tree().text(*node)), decision};
  }

  void read_class(const Node* call) {
    const std::string callee = names_.callee(call);
    const Node* own = names_.definition(call->child("func"));
    const bool own_class = own != nullptr && own->is(Kind::class_def);
    if (makes_optimizer(callee) || (own_class && !optimizer_base(names_, own).empty()))
      program_.optimizers.push_back(call);
    if (callee.starts_with("keras.optimizers.schedules.") ||
        (own_class && names_.derives(own, {"keras.optimizers.schedules.LearningRateSchedule"}))) {
      program_.schedules.push_back(call);
    }
    if (callee.starts_with("keras.callbacks.") ||
        (own_class && names_.derives(own, {"keras.callbacks.Callback"}))) {
      program_.callbacks.push_back(call);
    }
    if (makes_model(callee) || is_own_model(own)) program_.models.push_back(call);
    program_.sessions = program_.sessions || callee.ends_with(".disable_v2_behavior") ||
                        callee.ends_with(".disable_eager_execution") || callee == "tensorflow.Session" ||
                        callee == "tensorflow.compat.v1.Session" || callee == "tensorflow.ConfigProto";
  }

  bool is_own_model(const Node* own) const {
    return own != nullptr && own->is(Kind::class_def) &&
           names_.derives(own, {"keras.Model", "keras.models.Model", "keras.Sequential"});
  }

  /// Whether an expression is a Keras model; an expression of unknown origin may be one.
  bool is_model(const Node* expression) const {
    const auto origins = names_.origins(expression);
    bool unknown = origins.empty();
    for (const Node* origin : origins) {
      if (origin->is(Kind::class_def)) {
        if (is_own_model(origin)) return true;
        continue;
      }
      if (!origin->is(Kind::call)) continue;
      const std::string callee = names_.callee(origin);
      const Node* own = names_.definition(origin->child("func"));
      if (makes_model(callee) || is_own_model(own)) return true;
      const bool other = own != nullptr && own->is(Kind::class_def);
      const bool known_elsewhere = !callee.empty() && (callee.find('.') != std::string::npos);
      unknown = unknown || (!other && !known_elsewhere);
    }
    if (!unknown) return false;
    const std::string text(names_.tree().text(*expression));
    return std::any_of(program_.compiles.begin(), program_.compiles.end(),
                       [&](const KerasCall& compile) {
                         const int place = names_.place(expression);
                         return names_.tree().text(*compile.model) == text ||
                                (place >= 0 && names_.place(compile.model) == place);
                       }) ||
           (text == "model" || text == "self.model");
  }

  /// Whether the model's class defines train_step.
  bool has_own_step(const Node* expression) const {
    for (const Node* origin : names_.origins(expression)) {
      const Node* own = origin->is(Kind::class_def) ? origin
                        : origin->is(Kind::call)    ? names_.definition(origin->child("func"))
                                                    : nullptr;
      if (!is_own_model(own)) continue;
      const Node* step = names_.method(own, "train_step");
      if (step != nullptr &&
          reaches(names_, step, [&](const Node* call) { return is_tape(names_.callee(call)); }))
        return true;
    }
    return false;
  }

  void read_method(const Node* call, std::string_view wanted) {
    const Node* function = call->child("func");
    if (!function->is(Kind::attribute)) return;
    const std::string_view method = function->text;
    const Node* model = function->child("value");
    if (wanted == "compile") {
      if (method != "compile") return;
      if (const Node* own = names_.definition(function); own != nullptr) {
        if (is_own_model(class_of(own)) && !is_super(model))
          program_.compiles.push_back({call, model, has_own_step(model), own});
        return;
      }
      const bool says =
          names_.argument(call, "loss", -1) != nullptr || names_.argument(call, "optimizer", 0) != nullptr;
      if (says && names_.qualified(model) != "re" && names_.qualified(model) != "regex" && !is_super(model))
        program_.compiles.push_back({call, model, has_own_step(model)});
      return;
    }
    const bool fit = method == "fit" || method == "fit_generator";
    const bool evaluation = method == "evaluate" || method == "predict" || method == "evaluate_generator" ||
                            method == "predict_generator";
    if ((!fit && !evaluation) || is_super(model) || !is_model(model)) {
      if (method == "train_on_batch" && is_model(model)) {
        refuse(
            call,
            "the script chooses the samples of this batch itself, so the share of a process cannot be determined; use fit(), or a loop over a tf.data.Dataset with a GradientTape");
      }
      return;
    }
    (fit ? program_.fits : program_.evaluations).push_back({call, model, has_own_step(model)});
  }

  bool is_super(const Node* expression) const {
    return expression->is(Kind::call) && names_.qualified(expression->child("func")) == "super";
  }

  void read_tape(const Node& with) {
    for (const Node* item : with.list("items")) {
      const Node* made = item->child("context_expr");
      if (!made->is(Kind::call) || !is_tape(names_.callee(made))) continue;
      const Node* variable = item->child("optional_vars");
      if (variable == nullptr || !variable->is(Kind::name))
        refuse(item, "name the tape: with tf.GradientTape() as tape");
      const Node* persistent = names_.argument(made, "persistent", 0);
      program_.tapes.push_back({&with, variable, persistent != nullptr && persistent->text == "True"});
    }
  }

  /// `for x, y in dataset`, `for step, (x, y) in enumerate(dataset.take(5))`, `… in dataset.enumerate()`.
  void read_loop(const Node& node) {
    KerasLoop loop;
    loop.loop = &node;
    const Node* iterable = node.child("iter");
    const Node* target = node.child("target");
    while (iterable->is(Kind::call) && !iterable->list("args").empty() && !is_dataset(names_, iterable)) {
      const std::string callee = names_.qualified(iterable->child("func"));
      if (callee == "enumerate" && target->is(Kind::tuple)) loop.index = target->list("elts")[0];
      if (callee != "enumerate" && !callee.starts_with("tqdm.") && callee != "iter") return;
      iterable = iterable->list("args")[0];
    }
    if (!is_dataset(names_, iterable)) return;
    loop.dataset = iterable;
    const Node* method = iterable->is(Kind::call) ? iterable->child("func") : nullptr;
    if (method != nullptr && method->is(Kind::attribute) && method->text == "enumerate" &&
        iterable->list("args").empty() && target->is(Kind::tuple)) {
      loop.index = target->list("elts")[0];
      loop.counted = iterable;
      loop.dataset = method->child("value");
    }
    for (const Node* statement : node.list("body")) {
      loop.trains =
          loop.trains || reaches(names_, statement, [&](const Node* call) { return is_applying(call); });
    }
    program_.loops.push_back(loop);
  }

  static bool is_applying(const Node* call) {
    const Node* function = call->child("func");
    return function->is(Kind::attribute) && function->text == "apply_gradients";
  }

  void check() const {
    for (const Node* call : names_.calls()) {
      const Node* function = call->child("func");
      if (!function->is(Kind::attribute)) continue;
      if (function->text == "minimize") check_minimize(call);
      if (function->text == "apply_gradients" && program_.tapes.empty()) {
        refuse(call, "the source of these gradients is unknown; compute them with tf.GradientTape");
      }
    }
    if (program_.fits.empty() && std::none_of(program_.loops.begin(), program_.loops.end(),
                                              [](const KerasLoop& loop) { return loop.trains; })) {
      for (const KerasTape& tape : program_.tapes) {
        refuse(
            tape.with,
            "the batch of this step does not come from a loop over a tf.data.Dataset; create one from the data, so that each process can take its share");
      }
    }
    for (const KerasCall& fit : program_.fits) check_compiled(fit);
  }

  void check_compiled(const KerasCall& fit) const {
    const bool compiled = std::any_of(
        program_.compiles.begin(), program_.compiles.end(),
        [&](const KerasCall& compile) { return may_be_same_model(names_, compile.model, fit.model); });
    if (compiled) return;
    refuse(
        fit.call,
        "weave does not see where this model is compiled; call its compile() in this program, so that its optimizer can be found");
  }

  /// `optimizer.minimize(loss, variables, tape=tape)` computes and applies gradients in one call.
  void check_minimize(const Node* call) const {
    const bool in_step = is_own_model(class_of(call)) && !program_.tapes.empty();
    const bool in_loop =
        program_.fits.empty() && !names_.origins(call->child("func")->child("value")).empty();
    if (!in_step && !in_loop) return;
    refuse(
        call,
        "write the step with a GradientTape and apply_gradients, so that gradients can be averaged between the two");
  }

  const Names& names_;
  KerasProgram program_;
};

/// A class and its bases in the program.
std::vector<const Node*> with_bases(const Names& names, const Node* class_def) {
  std::vector<const Node*> found = {class_def};
  for (size_t i = 0; i < found.size(); ++i) {
    for (const Node* base : found[i]->list("bases")) {
      const Node* own = names.definition(base);
      const bool is_new = std::find(found.begin(), found.end(), own) == found.end();
      if (own != nullptr && own->is(Kind::class_def) && is_new) found.push_back(own);
    }
  }
  return found;
}

}  // namespace

std::string optimizer_base(const Names& names, const Node* class_def) {
  for (const Node* one : with_bases(names, class_def)) {
    for (const Node* base : one->list("bases")) {
      if (std::string name = names.qualified(base); makes_optimizer(name)) return name;
    }
  }
  return {};
}

bool may_be_same_model(const Names& names, const Node* one, const Node* other) {
  if (const int place = names.place(one); place >= 0 && names.place(other) == place) return true;
  // For `self`, the origin is the class; for other expressions, the call that creates the instance.
  const auto made_by = [&](const Node* expression) {
    auto origins = names.origins(expression);
    for (const Node*& origin : origins) {
      const Node* own = origin->is(Kind::call) ? names.definition(origin->child("func")) : nullptr;
      if (own != nullptr && own->is(Kind::class_def)) origin = own;
    }
    return origins;
  };
  const auto first = made_by(one);
  const auto second = made_by(other);
  if (first.empty() || second.empty()) return true;
  const auto contains = [](const std::vector<const Node*>& all, const Node* one_of_them) {
    return std::find(all.begin(), all.end(), one_of_them) != all.end();
  };
  return std::any_of(first.begin(), first.end(), [&](const Node* origin) {
    return std::any_of(second.begin(), second.end(), [&](const Node* compared) {
      if (origin == compared) return true;
      const bool classes = origin->is(Kind::class_def) && compared->is(Kind::class_def);
      return classes &&
             (contains(with_bases(names, origin), compared) || contains(with_bases(names, compared), origin));
    });
  });
}

bool trains_with_keras(const Names& names) {
  if (!imports_keras(names)) return false;
  bool compiles = false;
  bool fits = false;
  bool tape = false;
  bool applies = false;
  for (const Node* call : names.calls()) {
    const Node* function = call->child("func");
    tape = tape || is_tape(names.callee(call));
    if (!function->is(Kind::attribute)) continue;
    const std::string_view method = function->text;
    compiles = compiles || (method == "compile" && names.qualified(function) != "re.compile" &&
                            names.qualified(function) != "regex.compile");
    fits = fits || method == "fit" || method == "fit_generator" || method == "train_on_batch";
    applies = applies || method == "apply_gradients";
  }
  return (fits && compiles) || (tape && applies);
}

const Node* handed_fit(const Names& names) {
  if (!imports_keras(names)) return nullptr;
  const auto is_call_of = [&](const Node* call, std::string_view method) {
    const Node* function = call->child("func");
    return function->is(Kind::attribute) && function->text == method &&
           names.qualified(function) != "re.compile";
  };
  if (std::none_of(names.calls().begin(), names.calls().end(),
                   [&](const Node* call) { return is_call_of(call, "compile"); })) {
    return nullptr;
  }
  for (const Node& node : names.tree().nodes()) {
    const bool trains = node.is(Kind::attribute) && !node.store &&
                        (node.text == "fit" || node.text == "fit_generator" || node.text == "train_on_batch");
    if (!trains || (node.parent->is(Kind::call) && node.role == "func") || node.parent->is(Kind::attribute))
      continue;
    const auto origins = names.origins(node.child("value"));
    const bool other = std::any_of(origins.begin(), origins.end(), [&](const Node* origin) {
      return origin->is(Kind::call) && names.callee(origin).starts_with("sklearn.");
    });
    if (!other) return &node;
  }
  return nullptr;
}

KerasProgram read_keras(const Names& names) { return KerasReader(names).read(); }

}  // namespace telar::weave
