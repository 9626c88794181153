// GradientTape loops: the tape's gradients are averaged, variables start with rank 0's values, and metrics
// count all samples.
#include <algorithm>
#include <iterator>

#include "telar/weave/keras/trained.h"
#include "telar/weave/torch/writer.h"

namespace telar::weave {

namespace {

class Tapes {
 public:
  explicit Tapes(KerasWeaving& weaving) : w_(weaving) {}

  void write() {
    for (const KerasTape& tape : tapes_of_steps(w_)) write_tape(tape);
    if (!w_.program.fits.empty()) return;  // fit() calls the step
    if (w_.dialect.choices().divide_epochs || w_.dialect.choices().warmup_epochs > 0) {
      w_.refuse(w_.program.tapes[0].with->list("items")[0]->child("context_expr"),
                "--epochs divide and --warmup are for fit() only; weave without them");
    }
    TorchProgram loops;
    for (const KerasLoop& loop : w_.program.loops) {
      if (loop.trains) write_loop(loop);
      add_loop(loops, loop);
    }
    TorchWeaving sums{w_.names, loops, w_.edits, w_.dialect,
                      [this](const Node* at) { return w_.tensorflow(at); }};
    check_control_flow(sums);
    write_metrics(sums);
  }

 private:
  void write_tape(const KerasTape& tape) {
    std::string module = w_.dialect.module();
    if (!w_.program.fits.empty()) {
      module = w_.names.fresh("hvd_tf");
      w_.dialect.import("import horovod.tensorflow as " + module, tape.with);
    }
    w_.dialect.use(tape.with);
    const auto gradients = gradients_of(w_, tape);
    bool afterwards = false;
    for (const Node* call : gradients) {
      afterwards = afterwards || !is_inside(call, tape.with);
      if (is_inside(call, tape.with)) average(call, module);
    }
    if (!afterwards) return;
    const std::string name = w_.text(*tape.variable);
    w_.edits.after(*tape.with, {name + " = " + module + ".DistributedGradientTape(" + name + ")"});
    w_.edits.explain(tape.with->line, name + " = " + module + ".DistributedGradientTape(" + name + ")",
                     "its gradients are averaged over all processes");
  }

  /// A tape that still records cannot be replaced: its gradients are averaged once they are computed.
  void average(const Node* call, const std::string& module) {
    const std::string name = w_.names.fresh("average_gradients");
    const std::string tf = w_.tensorflow(call);
    w_.dialect.function({"def " + name + "(gradients):", "    return " + tf + ".nest.map_structure(",
                         "        lambda one: one if one is None else " + module +
                             ".allreduce(one, op=" + module + ".Average), gradients)"},
                        call);
    w_.edits.insert(call->begin, name + "(");
    w_.edits.insert(call->end, ")");
    w_.edits.explain(call->line, name + "(…)", "the gradients are averaged over all processes");
  }

  void write_loop(const KerasLoop& loop) {
    if (const std::string joined = share_dataset(w_, loop.dataset); !joined.empty())
      w_.edits.insert(loop.dataset->end, joined);
    const Node* step = nullptr;
    for (const Node* statement : loop.loop->list("body")) {
      const bool applies = reaches(w_.names, statement, is_apply);
      if (applies && step != nullptr)
        w_.refuse(statement, "the step applies gradients in two statements; put both into one function");
      if (applies) step = statement;
    }
    Trained trained;
    std::vector<std::string> optimizers;
    for (const Node* call : w_.names.calls()) {
      if (is_apply(call) && reached(loop, call))
        add(optimizers, visible_at(w_, call->child("func")->child("value"), loop));
      if (!call->child("func")->is(Kind::attribute) || call->child("func")->text != "gradient" ||
          !reached(loop, call))
        continue;
      const Node* sources = w_.names.argument(call, "sources", 1);
      if (sources != nullptr) add_trained(w_, sources, loop, trained);
    }
    const bool has_variables = !trained.variables.empty() || !trained.lists.empty();
    if ((trained.models.empty() && !has_variables) || optimizers.empty())
      w_.refuse(
          step,
          "the variables that this step trains cannot be determined; name them, as in model.trainable_variables");
    w_.dialect.use(loop.loop);
    if (has_variables) broadcast_variables(loop, trained);
    if (!trained.models.empty()) broadcast_models(step, trained, optimizers);
    write_counts(loop);
  }

  /// Variables that the script makes by itself exist before the loop.
  void broadcast_variables(const KerasLoop& loop, const Trained& trained) {
    const Node* outermost = loop.loop;
    while (const Node* around = loop_around(outermost)) outermost = around;
    std::vector<std::string> text;
    std::string alone;
    for (const std::string& one : trained.variables) alone += (alone.empty() ? "" : ", ") + one;
    const std::string broadcast = w_.dialect.module() + ".broadcast_variables(";
    if (!alone.empty()) text.push_back(broadcast + "[" + alone + "], root_rank=0)");
    for (const std::string& one : trained.lists) text.push_back(broadcast + one + ", root_rank=0)");
    w_.edits.before(*outermost, text);
    w_.edits.explain(outermost->line, text[0], "all processes begin with rank 0's values");
  }

  void broadcast_models(const Node* step, const Trained& trained,
                        const std::vector<std::string>& optimizers) {
    const std::string& hvd = w_.dialect.module();
    std::vector<std::string> text = {"if " + optimizers[0] + ".iterations == 1:"};
    for (const std::string& model : trained.models)
      text.push_back("    " + hvd + ".broadcast_variables(" + model + ".variables, root_rank=0)");
    for (const std::string& optimizer : optimizers)
      text.push_back("    " + hvd + ".broadcast_variables(" + optimizer + ".variables(), root_rank=0)");
    w_.edits.after(*step, text);
    w_.edits.explain(step->line, "after the first step: " + hvd + ".broadcast_variables(…)",
                     "all processes continue with rank 0's state; the variables exist only then");
  }

  bool reached(const KerasLoop& loop, const Node* call) const {
    return is_inside(call, loop.loop) ||
           reaches(w_.names, loop.loop, [&](const Node* one) { return one == call; });
  }

  static void add(std::vector<std::string>& to, const std::string& text) {
    if (!text.empty() && std::find(to.begin(), to.end(), text) == to.end()) to.push_back(text);
  }

  /// Adds up the counts of the keras.metrics objects that the loop updates over the processes, after the
  /// loop.
  void write_counts(const KerasLoop& loop) {
    std::vector<std::string> metrics;
    for (const Node* call : w_.names.calls()) {
      const Node* object = fed_metric(w_, call);
      if (object == nullptr || !reached(loop, call)) continue;
      check_reset(object, loop);
      add(metrics, visible_at(w_, object, loop));
    }
    if (metrics.empty()) return;
    const std::string name = w_.names.fresh("sum_metric");
    const std::string& hvd = w_.dialect.module();
    w_.dialect.function({"def " + name + "(metric):", "    for variable in metric.variables:",
                         "        variable.assign(" + hvd + ".allreduce(variable, op=" + hvd + ".Sum))"},
                        loop.loop);
    std::vector<std::string> text;
    text.reserve(metrics.size());
    for (const std::string& metric : metrics) text.push_back(name + "(" + metric + ")");
    w_.edits.after(*loop.loop, text);
    w_.edits.explain(loop.loop->line, text[0],
                     "each process counted its own samples; the script's result is that of all samples");
  }

  /// Sums over all processes must not be added up again after the next epoch.
  void check_reset(const Node* object, const KerasLoop& loop) const {
    const auto origins = w_.names.origins(object);
    for (const Node* call : w_.names.calls()) {
      const Node* function = call->child("func");
      if (!function->is(Kind::attribute) || !function->text.starts_with("reset_state")) continue;
      const auto others = w_.names.origins(function->child("value"));
      for (const Node* origin : origins) {
        if (std::find(others.begin(), others.end(), origin) != others.end()) return;
      }
    }
    for (const Node* around = loop.loop->parent; around != nullptr; around = around->parent) {
      const bool repeats = around->is(Kind::for_) || around->is(Kind::while_);
      if (!repeats) continue;
      for (const Node* origin : origins) {
        if (is_inside(origin, around)) return;
      }
      w_.refuse(
          object,
          "it counts over all epochs, but each process sees only its share; call reset_state() in each epoch");
    }
  }

  void add_loop(TorchProgram& loops, const KerasLoop& loop) const {
    TorchLoop one;
    one.loop = loop.loop;
    one.loader.expression = loop.dataset;
    one.index = loop.index;
    one.trains = loop.trains;
    for (const Node* origin : w_.names.origins(loop.dataset)) {
      one.loader.loaders.push_back(loops.loaders.size());
      loops.loaders.push_back({origin, loop.trains});
    }
    loops.loops.push_back(one);
  }

  KerasWeaving& w_;
};

}  // namespace

std::vector<const Node*> gradients_of(const KerasWeaving& w, const KerasTape& tape) {
  std::vector<const Node*> found;
  const int place = w.names.place(tape.variable);
  // A later tape may have the same name.
  const auto is_of_another = [&](const Node* call) {
    return std::any_of(w.program.tapes.begin(), w.program.tapes.end(), [&](const KerasTape& other) {
      return w.names.place(other.variable) == place && other.with->begin > tape.with->begin &&
             other.with->begin < call->begin;
    });
  };
  for (const Node* call : w.names.calls()) {
    const Node* function = call->child("func");
    if (function->is(Kind::attribute) && function->text == "gradient" &&
        w.names.place(function->child("value")) == place && call->begin > tape.with->begin &&
        !is_of_another(call))
      found.push_back(call);
  }
  return found;
}

bool trains(const KerasWeaving& w, const KerasTape& tape) {
  const auto gradients = gradients_of(w, tape);
  return std::any_of(gradients.begin(), gradients.end(), [&](const Node* call) {
    const Node* sources = w.names.argument(call, "sources", 1);
    return sources != nullptr && names_variables(w, sources);
  });
}

namespace {

/// Whether a node belongs to a model's own train_step, which fit() calls.
bool is_in_train_step(const KerasWeaving& w, const Node* node) {
  const auto is_model = [&](const Node* owner) {
    return owner != nullptr &&
           w.names.derives(owner, {"keras.Model", "keras.models.Model", "keras.Sequential"});
  };
  const Node* function = function_of(node);
  if (function == nullptr) return false;
  if (is_model(class_of(function))) return true;
  const auto& nodes = w.names.tree().nodes();
  return std::any_of(nodes.begin(), nodes.end(), [&](const Node& other) {
    return other.is_function() && other.text == "train_step" && is_model(class_of(&other)) &&
           reaches(w.names, &other,
                   [&](const Node* call) { return w.names.called_function(call) == function; });
  });
}

}  // namespace

std::vector<KerasTape> tapes_of_steps(const KerasWeaving& w) {
  const bool fits = !w.program.fits.empty();
  for (const Node* call : w.names.calls()) {
    if (fits && is_apply(call) && !is_in_train_step(w, call))
      w.refuse(
          call,
          "the script trains with fit() and with steps of its own, which weave does not join; put them into two scripts");
  }
  std::vector<KerasTape> found;
  // Beside fit(), a tape may only show gradients.
  std::copy_if(
      w.program.tapes.begin(), w.program.tapes.end(), std::back_inserter(found),
      [&](const KerasTape& tape) { return trains(w, tape) && (!fits || is_in_train_step(w, tape.with)); });
  return found;
}

const Node* fed_metric(const KerasWeaving& w, const Node* call) {
  const Node* function = call->child("func");
  const bool updates = function->is(Kind::attribute) && function->text == "update_state";
  const Node* object = updates ? function->child("value") : function;
  if (!object->is(Kind::name) && !object->is(Kind::attribute)) return nullptr;
  for (const Node* origin : w.names.origins(object)) {
    if (!origin->is(Kind::call)) continue;
    const Node* own = w.names.definition(origin->child("func"));
    if (w.names.callee(origin).starts_with("keras.metrics.") ||
        (own != nullptr && own->is(Kind::class_def) && w.names.derives(own, {"keras.metrics.Metric"})))
      return object;
  }
  return nullptr;
}

bool is_apply(const Node* call) {
  const Node* function = call->child("func");
  return function->is(Kind::attribute) && function->text == "apply_gradients";
}

void write_keras_tapes(KerasWeaving& weaving) { Tapes(weaving).write(); }

}  // namespace telar::weave
