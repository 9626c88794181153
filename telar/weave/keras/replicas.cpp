// GradientTape loops under tf.distribute. The step runs on every replica. Its loss is divided by the number
// of replicas, because their gradients are summed. The loop takes global batches from a distributed dataset.
// For a model's own train_step, fit() does all but the division.
#include <algorithm>
#include <set>

#include "telar/weave/keras/writer.h"
#include "telar/weave/torch/program.h"
#include "telar/weave/torch/writer.h"

namespace telar::weave {

namespace {

class Replicas {
 public:
  explicit Replicas(KerasWeaving& weaving) : w_(weaving), strategy_(weaving.dialect.module()) {}

  void write() {
    if (!w_.program.fits.empty()) return write_steps_of_models();
    if (!w_.grows())
      refuse_tape(
          "dividing the script's batch among the replicas is not supported here; weave without --global-batch keep");
    for (const KerasTape& tape : tapes_of_steps(w_)) write_tape(tape);
    for (const KerasLoop& loop : w_.program.loops) {
      if (loop.trains) write_loop(loop);
    }
    TorchProgram loops;
    for (const KerasLoop& loop : w_.program.loops) {
      TorchLoop one;
      one.loop = loop.loop;
      one.index = loop.index;
      one.trains = loop.trains;
      loops.loops.push_back(one);
    }
    write_losses();
    check_control_flow(TorchWeaving{w_.names, loops, w_.edits, w_.dialect});
    write_checkpoints();
  }

 private:
  /// The train_step of fitted models.
  void write_steps_of_models() {
    const std::vector<KerasTape> tapes = tapes_of_steps(w_);
    if (tapes.empty()) return;
    for (const KerasTape& tape : tapes) write_tape(tape);
    write_losses();
    for (const Node* call : w_.names.calls()) {
      const Node* function = call->child("func");
      const bool compiled = function->is(Kind::attribute) && is_self(function->child("value")) &&
                            (function->text == "compute_loss" || function->text == "compiled_loss");
      if (!compiled || w_.names.definition(function) != nullptr) continue;
      w_.edits.insert(call->begin, "(");
      w_.edits.insert(call->end, " * " + strategy_ + ".num_replicas_in_sync)");
      w_.edits.explain(call->line, w_.text(*function) + "(…) × number of replicas",
                       "Keras has divided this loss by it, but here it is a mean like any other");
    }
    for (const KerasTape& tape : tapes) {
      if (const Node* step = function_of(tape.with)) write_returned(step);
    }
  }

  static bool is_self(const Node* node) { return node->is(Kind::name) && node->text == "self"; }

  /// What a train_step returns besides results of metrics is one value for each replica.
  void write_returned(const Node* step) {
    if (step->text != "train_step" || !written_.insert(step).second) return;
    walk(*step, [&](const Node& node) {
      if (&node != step && node.is_function()) return false;
      const Node* value = node.is(Kind::return_) ? node.child("value") : nullptr;
      for (const Node* origin : value == nullptr ? std::vector<const Node*>() : w_.names.origins(value)) {
        for (const Node* one : origin->list("values")) write_figure(one);
      }
      return true;
    });
  }

  void write_figure(const Node* value) {
    if (value->is(Kind::call) && value->child("func")->is(Kind::attribute) &&
        value->child("func")->text == "result")
      return;
    if (!is_loss(value))
      w_.refuse(
          value,
          "weave does not know how the replicas' values of this are joined; return losses, or results of keras.metrics objects");
    const std::string name = w_.names.fresh("mean_of_replicas");
    const std::string keras = w_.tensorflow(value) + ".keras";
    w_.dialect.function(
        {"def " + name + "(value):",
         "    # fit() takes the mean over the replicas; before Keras 3, it adds the values up.",
         "    return value if int(" + keras + ".__version__.split(\".\")[0]) >= 3 else value / " + strategy_ +
             ".num_replicas_in_sync"},
        value);
    w_.edits.insert(value->begin, name + "(");
    w_.edits.insert(value->end, ")");
    w_.edits.explain(value->line, name + "(…)", "each replica has the loss of its part of the batch");
  }

  [[noreturn]] void refuse_tape(const std::string& decision) const {
    w_.refuse(w_.program.tapes[0].with->list("items")[0]->child("context_expr"), decision);
  }

  void write_tape(const KerasTape& tape) {
    w_.dialect.use(tape.with);
    for (const Node* call : gradients_of(w_, tape)) {
      const Node* target = w_.names.argument(call, "target", 0);
      if (target == nullptr || !target->is(Kind::name) || !is_assigned_in(tape.with, target))
        w_.refuse(
            call,
            "assign the loss to a variable inside the `with` of the tape, so that it can be divided there");
      const std::string loss(target->text);
      const std::string scaled = w_.names.fresh("scaled_" + loss);
      w_.edits.replace(*target, scaled);
      const std::string line = scaled + " = " + loss + " / " + strategy_ + ".num_replicas_in_sync";
      if (is_inside(call, tape.with)) {
        w_.edits.before(*statement_of(call), {line});
      } else {
        w_.edits.after(*tape.with->list("body").back(), {line});
      }
      w_.edits.explain(call->line, line,
                       "the gradients of all replicas are summed, but their mean is needed");
      write_use(call);
    }
  }

  /// Loss objects that reduce a batch raise an error on a replica's part of it. They are changed to return
  /// the loss of each sample; the mean is taken after the call.
  void write_losses() {
    for (const Node* call : w_.names.calls()) {
      const Node* function = call->child("func");
      if (!function->is(Kind::name) && !function->is(Kind::attribute)) continue;
      for (const Node* made : w_.names.origins(function)) {
        const std::string callee = made->is(Kind::call) && made != call ? w_.names.callee(made) : "";
        if (!callee.starts_with("keras.losses.")) continue;
        if (w_.names.argument(made, "reduction", -1) != nullptr)
          w_.refuse(made, "remove its reduction, so that each replica can take the mean of its samples");
        if (losses_.insert(made).second) w_.edits.add_argument(*made, "reduction=\"none\"");
        if (!losses_.insert(call).second) continue;
        w_.edits.insert(call->begin, w_.tensorflow(call) + ".reduce_mean(");
        w_.edits.insert(call->end, ")");
        w_.edits.explain(call->line, "reduce_mean of a loss with reduction=\"none\"",
                         "Keras does not take the mean over a replica's part");
      }
    }
  }

  bool is_assigned_in(const Node* within, const Node* name) const {
    const auto& values = w_.names.values(w_.names.place(name));
    return std::any_of(values.begin(), values.end(),
                       [&](const Value& value) { return is_inside(value.node, within); });
  }

  /// Gradients that are changed before they are applied (clipped) must be summed before the change.
  void write_use(const Node* gradient) {
    const Node* statement = statement_of(gradient);
    if (!statement->is(Kind::assign)) return;
    const Node* target = statement->list("targets")[0];
    if (!target->is(Kind::name)) w_.refuse(gradient, "assign the gradients to their own variable");
    bool changed = false;
    const Node* applies_whole = nullptr;
    for (const Node* mention : w_.names.mentions(w_.names.place(target))) {
      if (mention->store || mention->begin < statement->end) continue;
      const Node* call = mention->parent;
      const bool zipped = call->is(Kind::call) && w_.names.qualified(call->child("func")) == "zip" &&
                          call->parent->is(Kind::call) && is_apply(call->parent);
      // Keras 3: optimizer.apply(gradients, variables)
      const bool whole = call->is(Kind::call) && call->child("func")->is(Kind::attribute) &&
                         call->child("func")->text == "apply" && mention->role == "args";
      if (whole) applies_whole = call;
      changed = changed || (!zipped && !whole);
    }
    if (!changed) return;
    if (applies_whole != nullptr)
      w_.refuse(applies_whole,
                "call apply_gradients(zip(gradients, variables)), so that each gradient can be divided");
    const std::string tf = w_.tensorflow(gradient);
    const std::string gradients(target->text);
    const std::string line = gradients + " = " + tf + ".distribute.get_replica_context().all_reduce(" + tf +
                             ".distribute.ReduceOp.SUM, " + gradients + ")";
    w_.edits.after(*statement, {line});
    w_.edits.explain(gradient->line, line, "code that changes the gradients must see those of all replicas");
    for (const Node* apply : w_.names.calls()) {
      if (!is_apply(apply) || function_of(apply) != function_of(gradient) || !summed_.insert(apply).second)
        continue;
      const Node* pairs = w_.names.argument(apply, "grads_and_vars", 0);
      if (pairs == nullptr || !is_inside(pairs, apply))
        w_.refuse(apply, "pass the pairs of gradient and variable to apply_gradients directly");
      w_.edits.insert(pairs->begin,
                      "[(" + tf + ".scalar_mul(1 / " + strategy_ +
                          ".num_replicas_in_sync, gradient), variable) for gradient, variable in ");
      w_.edits.insert(pairs->end, "]");
      w_.edits.explain(apply->line, "gradients / number of replicas",
                       "the optimizer sums the replicas' gradients, which are now equal");
    }
  }

  /// The call of the step function in a loop.
  const Node* step_of(const KerasLoop& loop) const {
    const Node* step = nullptr;
    walk(*loop.loop, [&](const Node& node) {
      if (!node.is(Kind::call)) return true;
      if (is_apply(&node))
        w_.refuse(
            &node,
            "put the step, from the tape to apply_gradients, into a function that every replica can run");
      const Node* function = w_.names.called_function(&node);
      if (function == nullptr || !reaches(w_.names, function, is_apply)) return true;
      if (step != nullptr) w_.refuse(&node, "the loop has two steps; put both into one function");
      step = &node;
      return false;
    });
    return step;
  }

  void write_loop(const KerasLoop& loop) {
    const Node* call = step_of(loop);
    const Node* function = call == nullptr ? nullptr : w_.names.called_function(call);
    if (function == nullptr) w_.refuse(loop.loop, "the step function of this loop cannot be determined");
    if (function->text == "__call__") w_.refuse(call, "make the step a function or method with its own name");
    check_call(call);
    write_shown_batches(w_, loop, call);
    check_says_nothing(function);
    write_step(function, call);
    write_dataset(loop);
  }

  void check_call(const Node* call) const {
    for (const Node* given : call->list("args")) {
      if (given->is(Kind::starred))
        w_.refuse(call, "pass the arguments of the step one by one, not through *");
    }
    if (!call->list("keywords").empty()) w_.refuse(call, "pass the arguments of the step by position");
  }

  void check_says_nothing(const Node* function) const {
    reaches(w_.names, function, [&](const Node* call) {
      const std::string callee = w_.names.callee(call);
      if (callee == "print" || callee == "tensorflow.print")
        w_.refuse(call, "every replica would print it; print what the step returns");
      return false;
    });
  }

  /// Counts the values that the step returns. All must be losses: their mean over the replicas is that of the
  /// global batch.
  size_t returned(const Node* function) const {
    size_t count = 0;
    walk(*function, [&](const Node& node) {
      if (&node != function && node.is_function()) return false;
      const Node* value = node.is(Kind::return_) ? node.child("value") : nullptr;
      if (value == nullptr || value->literal == Literal::null) return true;
      const std::vector<const Node*> parts =
          value->is(Kind::tuple)
              ? std::vector<const Node*>(value->list("elts").begin(), value->list("elts").end())
              : std::vector<const Node*>{value};
      for (const Node* one : parts) {
        if (!is_loss(one))
          w_.refuse(
              one,
              "the step may return only losses, whose mean is taken; update a keras.metrics object in the step instead");
      }
      count = parts.size();
      return true;
    });
    return count;
  }

  /// Whether an expression is a variable whose gradients a tape computes.
  bool is_loss(const Node* expression) const {
    const int place = w_.names.place(expression);
    if (place < 0) return false;
    for (const KerasTape& tape : w_.program.tapes) {
      for (const Node* call : gradients_of(w_, tape)) {
        const Node* target = w_.names.argument(call, "target", 0);
        if (target != nullptr && w_.names.place(target) == place) return true;
      }
    }
    return false;
  }

  /// Adds a function that runs the step on every replica; it is a graph if the step was one.
  void write_step(const Node* function, const Node* call) {
    const std::string tf = w_.tensorflow(function);
    const std::string step(function->text);
    const std::string name = w_.names.fresh("distributed_" + step);
    if (written_.insert(function).second) {
      const bool method = function->parent->is(Kind::class_def);
      std::vector<std::string> text = {""};
      if (!method) text.emplace_back();
      for (const Node* decorator : function->list("decorator_list")) {
        const Node* made = decorator->is(Kind::call) ? decorator->child("func") : decorator;
        if (w_.names.qualified(made) != "tensorflow.function")
          w_.refuse(decorator, "what this decorator does to the step is unknown; remove it");
        text.push_back("@" + w_.text(*decorator));
        remove_decorator(decorator);
      }
      text.push_back("def " + name + (method ? "(self, *batch):" : "(*batch):"));
      const std::string run = strategy_ + ".run(" + (method ? "self." : "") + step + ", args=batch)";
      const std::string mean = strategy_ + ".reduce(" + tf + ".distribute.ReduceOp.MEAN, ";
      const size_t count = returned(function);
      if (count == 0) text.push_back("    " + run);
      if (count == 1) text.push_back("    return " + mean + run + ", axis=None)");
      if (count > 1) {
        text.push_back("    losses = " + run);
        text.push_back("    return tuple(" + mean + "loss, axis=None) for loss in losses)");
      }
      w_.edits.after(*function, text);
      w_.edits.explain(function->line, name, "every replica runs the step on its part of the batch");
    }
    const Node* called = call->child("func");
    w_.edits.replace(called->end - function->text.size(), called->end, name);
    w_.edits.explain(call->line, name + "(…)", "every replica runs the step on its part of the batch");
    w_.dialect.use(call);
  }

  void remove_decorator(const Node* decorator) {
    const Tree& tree = w_.names.tree();
    const int line = tree.line_of(decorator->begin);
    w_.edits.replace(tree.line_begin(line), tree.line_begin(tree.line_of(decorator->end) + 1), "");
    w_.edits.explain(decorator->line, "@" + w_.text(*decorator) + " moves to the function that runs the step",
                     "the graph must contain all replicas");
  }

  /// Global batches of equal size; each replica takes its part.
  void write_dataset(const KerasLoop& loop) {
    const std::string joined = share_dataset(w_, loop.dataset);
    const std::string distribute = strategy_ + ".experimental_distribute_dataset(";
    const Node* outermost = loop.loop;
    for (const Node* around = loop.loop->parent; around != nullptr && !around->is_function();
         around = around->parent) {
      if (around->is(Kind::for_) || around->is(Kind::while_)) outermost = around;
    }
    if (loop.counted != nullptr) count_outside(loop);
    if (outermost == loop.loop || !loop.dataset->is(Kind::name) || is_made_in(outermost, loop.dataset)) {
      w_.edits.insert(loop.dataset->begin, distribute);
      w_.edits.insert(loop.dataset->end, joined + ")");
    } else {
      // Created once, not in each epoch: the order of an epoch depends on the previous one.
      const std::string dataset(loop.dataset->text);
      const std::string name = w_.names.fresh("distributed_" + dataset);
      w_.edits.before(*outermost, {name + " = " + distribute + dataset + joined + ")"});
      w_.edits.replace(*loop.dataset, name);
    }
    w_.edits.explain(loop.loop->line, distribute + "…)", "each replica takes its part of every batch");
  }

  /// `dataset.enumerate()` becomes `enumerate(dataset)`: a distributed dataset has no methods.
  void count_outside(const KerasLoop& loop) {
    walk(*loop.loop, [&](const Node& node) {
      if (node.is(Kind::attribute) && w_.text(*node.child("value")) == w_.text(*loop.index))
        w_.refuse(&node, "count with enumerate(dataset), whose numbers are Python's");
      return true;
    });
    w_.edits.insert(loop.dataset->begin, "enumerate(");
    w_.edits.replace(loop.dataset->end, loop.counted->end, ")");
  }

  bool is_made_in(const Node* around, const Node* name) const {
    const auto& values = w_.names.values(w_.names.place(name));
    return std::any_of(values.begin(), values.end(),
                       [&](const Value& value) { return is_inside(value.node, around); });
  }

  /// All workers save, because saving gathers variables; only one saves to the requested folder.
  void write_checkpoints() {
    for (const Node* call : w_.names.calls()) {
      if (w_.names.callee(call) != "tensorflow.train.CheckpointManager") continue;
      const Node* folder = w_.names.argument(call, "directory", 1);
      if (folder == nullptr || !is_inside(folder, call))
        w_.refuse(call, "write its directory directly in this call");
      w_.edits.insert(folder->end, " if " + w_.dialect.is_first(call) + " else " +
                                       w_.dialect.module_name("tempfile", call) + ".mkdtemp()");
      w_.edits.explain(call->line, "the other workers save into a temporary folder",
                       "saving gathers variables of all workers, so all take part");
    }
    for (const Node& node : w_.names.tree().nodes()) {
      if (node.is(Kind::attribute) && node.text == "latest_checkpoint" && w_.names.qualified(&node).empty())
        write_latest(&node);
    }
  }

  /// `manager.latest_checkpoint`: only the chief's manager has the requested folder.
  void write_latest(const Node* latest) {
    const auto origins = w_.names.origins(latest->child("value"));
    const bool is_one = origins.size() == 1 && origins[0]->is(Kind::call) &&
                        w_.names.callee(origins[0]) == "tensorflow.train.CheckpointManager";
    const Node* folder = is_one ? w_.names.argument(origins[0], "directory", 1) : nullptr;
    if (folder == nullptr || latest->inside_fstring || !w_.names.means_the_same(folder, latest))
      w_.refuse(latest,
                "each worker's manager has its own folder; use tf.train.latest_checkpoint(directory)");
    const std::string text = w_.tensorflow(latest) + ".train.latest_checkpoint(" + w_.text(*folder) + ")";
    w_.edits.replace(*latest, text);
    w_.edits.explain(latest->line, text, "each worker's manager has its own folder");
  }

  KerasWeaving& w_;
  const std::string& strategy_;
  std::set<const Node*> losses_;
  std::set<const Node*> summed_;
  std::set<const Node*> written_;
};

}  // namespace

bool counts_training(const KerasWeaving& w, const Node* made) {
  for (const Node* call : w.names.calls()) {
    const Node* metric = fed_metric(w, call);
    if (metric == nullptr) continue;
    const auto origins = w.names.origins(metric);
    if (std::find(origins.begin(), origins.end(), made) == origins.end()) continue;
    for (const KerasLoop& loop : w.program.loops) {
      if (loop.trains && (is_inside(call, loop.loop) ||
                          reaches(w.names, loop.loop, [&](const Node* one) { return one == call; })))
        return true;
    }
  }
  return false;
}

void write_keras_replicas(KerasWeaving& weaving) { Replicas(weaving).write(); }

}  // namespace telar::weave
