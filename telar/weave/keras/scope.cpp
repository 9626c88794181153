// tf.distribute: code that creates variables (models, optimizers, metrics, compile) is put in the strategy's
// scope.
#include <algorithm>

#include "telar/weave/keras/trained.h"
#include "telar/weave/torch/program.h"

namespace telar::weave {

namespace {

bool loads_weights(const Node* call) {
  const Node* function = call->child("func");
  return function->is(Kind::attribute) && function->text == "load_weights";
}

/// Whether a model makes its variables when it is first called.
bool is_built_when_called(const KerasWeaving& w, const Node* made) {
  if (std::find(w.program.models.begin(), w.program.models.end(), made) == w.program.models.end())
    return false;
  const Node* own = w.names.definition(made->child("func"));
  return (own != nullptr && own->is(Kind::class_def)) ||
         (w.names.callee(made).ends_with("Sequential") && w.text(*made).find("nput") == std::string::npos);
}

/// Whether a call applies a model before the first step of a loop does.
bool applies_first(const KerasWeaving& w, const Node* call) {
  if (!w.program.fits.empty()) return false;
  const auto is_first = [&](const KerasLoop& loop) {
    if (!loop.trains || function_of(call) != function_of(loop.loop)) return false;
    const auto& body = loop.loop->list("body");
    const auto step = std::find_if(body.begin(), body.end(), [&](const Node* statement) {
      return reaches(w.names, statement, is_apply);
    });
    return step != body.end() && call->begin < (*step)->begin;
  };
  if (std::none_of(w.program.loops.begin(), w.program.loops.end(), is_first)) return false;
  const auto origins = w.names.origins(call->child("func"));
  return std::any_of(origins.begin(), origins.end(),
                     [&](const Node* origin) { return origin != call && is_built_when_called(w, origin); });
}

bool makes_variables(const KerasWeaving& w, const Node* call) {
  if (makes_trained(w, call) || applies_first(w, call)) return true;
  const std::string callee = w.names.callee(call);
  // All workers create the metrics of an evaluation outside the replicas, so each worker has its own.
  if (callee.starts_with("keras.metrics.") && w.program.fits.empty()) return counts_training(w, call);
  for (const std::string_view prefix :
       {"keras.layers.", "keras.models.", "keras.applications.", "keras.optimizers.", "keras.metrics.",
        "keras.Input", "keras.Model", "keras.Sequential", "tensorflow_hub.KerasLayer", "keras_hub.models.",
        "keras_nlp.models.", "keras_cv.models."}) {
    if (callee.starts_with(prefix) && !callee.starts_with("keras.models.save_model")) return true;
  }
  for (const KerasCall& compile : w.program.compiles) {
    if (compile.call == call) return true;
  }
  if (std::find(w.program.models.begin(), w.program.models.end(), call) != w.program.models.end())
    return true;
  if (std::find(w.program.optimizers.begin(), w.program.optimizers.end(), call) != w.program.optimizers.end())
    return true;
  // Applying a layer to another creates its variables.
  const Node* function = call->child("func");
  if (function->is(Kind::call)) return makes_variables(w, function);
  for (const Node* origin : w.names.origins(function)) {
    if (origin != call && origin->is(Kind::call) && w.names.callee(origin).starts_with("keras.layers."))
      return true;
  }
  if (!function->is(Kind::attribute) || !w.names.callee(call).empty()) return false;
  const auto is_of = [&](const std::vector<const Node*>& made) {
    const auto origins = w.names.origins(function->child("value"));
    return std::any_of(made.begin(), made.end(), [&](const Node* one) {
      return std::find(origins.begin(), origins.end(), one) != origins.end();
    });
  };
  const auto layers = w.names.origins(function->child("value"));
  const bool adapts =
      function->text == "adapt" && std::any_of(layers.begin(), layers.end(), [&](const Node* one) {
        return one->is(Kind::call) && w.names.callee(one).starts_with("keras.layers.");
      });
  if (adapts) return true;
  const bool builds = function->text == "build";
  return ((builds || function->text == "add" || loads_weights(call)) && is_of(w.program.models)) ||
         (builds && is_of(w.program.optimizers));
}

bool is_fit(const KerasWeaving& w, const Node* call) {
  return is_apply(call) || std::any_of(w.program.fits.begin(), w.program.fits.end(),
                                       [&](const KerasCall& fit) { return fit.call == call; });
}

/// Puts the statements of a block that create variables into the scope. If a statement also trains, its inner
/// blocks are searched.
void write_block(KerasWeaving& w, Nodes block) {
  for (const Node* statement : block) {
    if (statement->is_function() || statement->is(Kind::class_def)) continue;
    const bool makes =
        reaches(w.names, statement, [&](const Node* call) { return makes_variables(w, call); });
    if (!makes) continue;
    const bool fits = reaches(w.names, statement, [&](const Node* call) { return is_fit(w, call); });
    if (!fits) {
      w.edits.guard_with(*statement, "with " + w.dialect.module() + ".scope():");
      w.edits.explain(
          statement->line, "with " + w.dialect.module() + ".scope():",
          reaches(w.names, statement, loads_weights)
              ? "weights are loaded into the copies of all replicas; Keras 2 fails here with a TypeError for .weights.h5 of a model with metrics, Keras 3 does not"
              : "each replica gets its own copy of these variables");
      w.dialect.use(statement);
      continue;
    }
    const bool direct = [&] {
      bool found = false;
      walk(*statement, [&](const Node& node) {
        if (node.is(Kind::call) && is_fit(w, &node)) found = true;
        return !found;
      });
      return found;
    }();
    if (direct) {
      for (const std::string_view field : {"body", "orelse", "finalbody"})
        write_block(w, statement->list(field));
      continue;
    }
    // The statement may call a function that both creates and trains the model.
    for (const Node* call : w.names.calls()) {
      if (!is_inside(call, statement)) continue;
      const Node* function = w.names.called_function(call);
      if (function != nullptr && w.shared.insert(function).second) write_block(w, function->list("body"));
    }
    for (const std::string_view field : {"body", "orelse", "finalbody"})
      write_block(w, statement->list(field));
  }
}

}  // namespace

void write_keras_scope(KerasWeaving& weaving) {
  write_block(weaving, weaving.names.tree().root()->list("body"));
}

}  // namespace telar::weave
