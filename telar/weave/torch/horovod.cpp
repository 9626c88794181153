// Horovod averages gradients in the wrapped optimizer. Weights and optimizer state start with rank 0's
// values. With several optimizers, a backward pass may also reach the parameters of another one (a GAN's
// discriminator), and the wrapped optimizer refuses gradients that it has not averaged, as it does for
// several backward passes before a step. In such scripts, the gradients are averaged before each step
// instead.
#include <algorithm>
#include <set>

#include "telar/weave/torch/optimizer_calls.h"
#include "telar/weave/torch/writer.h"

namespace telar::weave {

namespace {

/// Gradients are averaged during the backward pass; all averages must be complete before clipping.
void write_clipping(TorchWeaving& w, const Node* call) {
  const Node* statement = statement_of(call);
  const auto& block = block_of(statement);
  for (const Node* other : block) {
    if (other->begin <= statement->end || !other->is(Kind::expr) || !other->child("value")->is(Kind::call))
      continue;
    const Node* function = other->child("value")->child("func");
    if (!function->is(Kind::attribute) || function->text != "step") continue;
    for (const Node* origin : w.names.origins(function->child("value"))) {
      for (const TorchOptimizer& optimizer : w.program.optimizers) {
        if (optimizer.call != origin) continue;
        const std::string name = w.text(*function->child("value"));
        w.edits.before(*statement, {name + ".synchronize()"});
        w.edits.guard_with(*other, "with " + name + ".skip_synchronize():");
        w.edits.explain(call->line, name + ".synchronize()",
                        "the averages must be complete before they are clipped");
        return;
      }
    }
  }
  w.refuse(
      call,
      "the optimizer step that follows this clipping cannot be determined; write optimizer.step() in the same block");
}

/// `scaler.step(optimizer)`: the averages must be complete before they are unscaled.
void write_scaler(TorchWeaving& w, const Node* call, std::set<const Node*>& scaled) {
  const Node* function = call->child("func");
  if (!function->is(Kind::attribute) || function->text != "step" || call->list("args").size() != 1) return;
  const auto origins = w.names.origins(function->child("value"));
  const bool scaler = std::any_of(origins.begin(), origins.end(), [&](const Node* origin) {
    return origin->is(Kind::call) && w.names.callee(origin).ends_with("GradScaler");
  });
  if (!scaler) return;
  const std::string name = w.text(*call->list("args")[0]);
  const Node* statement = statement_of(call);
  if (!statement->is(Kind::expr)) w.refuse(call, "make this a separate statement");
  const Node* first = statement;
  for (const Node* other : block_of(statement)) {
    if (!other->is(Kind::expr) || !other->child("value")->is(Kind::call) || other->begin > statement->begin)
      continue;
    const Node* unscale = other->child("value")->child("func");
    if (unscale->is(Kind::attribute) && unscale->text == "unscale_") first = other;
  }
  w.edits.before(*first, {name + ".synchronize()"});
  w.edits.guard_with(*statement, "with " + name + ".skip_synchronize():");
  w.edits.explain(call->line, name + ".synchronize()",
                  "the averages must be complete before they are unscaled");
  scaled.insert(statement->parent);
}

/// Removes nn.DataParallel: it would split batches among the threads of one process.
void write_data_parallel(TorchWeaving& w, const Node* call) {
  const Node* statement = statement_of(call);
  const bool whole = statement->is(Kind::assign) && statement->child("value") == call &&
                     !call->list("args").empty() &&
                     w.text(*statement->list("targets")[0]) == w.text(*call->list("args")[0]);
  if (!whole) w.refuse(call, "remove nn.DataParallel: each process has one device");
  for (const Node& node : w.names.tree().nodes()) {
    if (node.is(Kind::attribute) && node.text == "module" &&
        w.text(*node.child("value")) == w.text(*call->list("args")[0])) {
      w.refuse(&node, "without nn.DataParallel the model has no .module; remove both");
    }
  }
  const Node* branch = statement->parent;
  const bool alone =
      branch->is(Kind::if_) && branch->list("orelse").empty() &&
      std::all_of(branch->list("body").begin(), branch->list("body").end(), [&](const Node* other) {
        return other == statement || (other->is(Kind::expr) && other->child("value")->is(Kind::call) &&
                                      w.names.callee(other->child("value")) == "print");
      });
  w.edits.remove(alone ? *branch : *statement);
  w.edits.explain(call->line, "nn.DataParallel is removed", "each process has one device");
}

/// `if (i + 1) % 4 == 0: optimizer.step()`: the gradients of several batches are summed before they are
/// averaged.
std::string passes(TorchWeaving& w, const TorchOptimizer& optimizer, const Node* kept) {
  for (const Node* call : w.names.calls()) {
    const Node* function = call->child("func");
    if (!function->is(Kind::attribute) || function->text != "step") continue;
    const Node* branch = statement_of(call)->parent;
    const auto origins = w.names.origins(function->child("value"));
    if (!branch->is(Kind::if_) || std::find(origins.begin(), origins.end(), optimizer.call) == origins.end())
      continue;
    const auto loops = w.program.training_loops();
    const bool in_loop =
        std::any_of(loops.begin(), loops.end(), [&](const Node* loop) { return is_inside(branch, loop); });
    // if phase == "train": loss.backward(); optimizer.step()
    const auto& body = branch->list("body");
    const bool whole = std::any_of(body.begin(), body.end(), [&](const Node* statement) {
      return reaches(w.names, statement, is_backward);
    });
    if (!in_loop || whole) continue;
    const Node* count = nullptr;
    walk(*branch->child("test"), [&](const Node& node) {
      if (node.is(Kind::bin_op) && node.child("op")->is(Kind::mod)) count = node.child("right");
      return true;
    });
    const bool constant = count != nullptr && count->is(Kind::constant);
    const int place = count == nullptr ? -1 : w.names.place(count);
    const bool visible =
        place >= 0 && ((w.names.scope(place)->is(Kind::module) && w.names.means_the_same(count, kept)) ||
                       (function_of(kept) != nullptr && w.names.scope(place) == function_of(kept)) ||
                       (class_of(kept) != nullptr && class_of(kept) == class_of(call)));
    if (!constant && !visible) {
      w.refuse(
          call,
          "the number of batches between optimizer steps is not known where the optimizer is created; write it as (i + 1) % count with a constant");
    }
    return ", backward_passes_per_step=" + w.text(*count);
  }
  return {};
}

/// The statement that assigns an optimizer to a variable: where it is created, or the only call of the
/// function that returns it.
const Node* kept_in(const TorchWeaving& w, const TorchOptimizer& optimizer) {
  const Node* made = optimizer.call;
  const Node* statement = statement_of(made);
  if (statement->is(Kind::return_) && function_of(made) != nullptr) {
    const auto callers = w.names.calls_of(function_of(made));
    if (callers.size() == 1) made = callers[0];
    statement = statement_of(made);
  }
  if (!statement->is(Kind::assign) || statement->child("value") != made)
    w.refuse(optimizer.call, "assign the optimizer to its own variable");
  return statement;
}

/// The expression for an optimizer's model at the statement that assigns the optimizer.
std::string visible_model(const TorchWeaving& w, const TorchModel& model, const TorchOptimizer& optimizer,
                          const Node* statement) {
  const Node* value = statement->child("value");
  const bool by_method = model.optimizer != optimizer.call && model.optimizer->is(Kind::call) &&
                         w.names.called_function(model.optimizer) == function_of(optimizer.call);
  if (value == optimizer.call) return by_method ? "self" : model.text;
  if (value == model.optimizer) return model.text;
  for (const Value& given : w.names.values(model.place)) {
    if (is_inside(given.node, value) && w.names.scope(model.place) == function_of(optimizer.call))
      return w.text(*given.node);
  }
  w.refuse(optimizer.call,
           "create the optimizer where its model is created, or pass the model to this function");
}

bool is_clipping(const TorchWeaving& w, const Node* call) {
  return w.names.callee(call).starts_with("torch.nn.utils.clip_grad");
}

/// Whether a statement needs averages: it clips gradients or unscales them.
bool needs_averages(const TorchWeaving& w, const Node* statement) {
  return reaches(w.names, statement, [&](const Node* call) {
    const Node* function = call->child("func");
    return is_clipping(w, call) || (function->is(Kind::attribute) && function->text == "unscale_");
  });
}

/// The statement before which the gradients of a step are averaged: the one that follows the backward pass,
/// or the first that needs averages, or the step.
const Node* first_with_averages(const TorchWeaving& w, const Node* step) {
  const Node* first = nullptr;
  for (const Node* statement : block_of(step)) {
    const bool was_updated =
        reaches(w.names, statement, [&](const Node* call) { return optimizer_call(w, call).steps; });
    const bool computed = reaches(w.names, statement, is_backward);
    if (statement == step) return first == nullptr ? step : first;
    if (computed || was_updated)
      first = nullptr;
    else if (first == nullptr && needs_averages(w, statement))
      first = statement;
  }
  return step;
}

/// Averages the gradients of each optimizer before its steps.
void write_averages(TorchWeaving& w) {
  std::set<const Node*> covered;
  for (const Node* call : w.names.calls()) {
    const OptimizerCall one = optimizer_call(w, call);
    if (!one.steps || one.optimizers.empty()) continue;
    const Node* statement = statement_of(call);
    if (!statement->is(Kind::expr)) w.refuse(call, "make this a separate statement");
    if (one.expression == call->child("func")->child("value") && !call->list("args").empty())
      w.refuse(
          call,
          "here the gradients are averaged before step(), which must not compute them in a closure: use --target ddp");
    const Node* first = first_with_averages(w, statement);
    const std::string text = average_gradients(w, first) + "(" + w.text(*one.expression) + ")";
    w.edits.before(*first, {text});
    w.edits.explain(call->line, text, "each process has the gradients of its own samples");
    for (const Node* other : block_of(statement)) {
      if (other->begin >= first->begin && other->begin < statement->begin) covered.insert(other);
    }
  }
  for (const Node* call : w.names.calls()) {
    const bool is_covered =
        std::any_of(covered.begin(), covered.end(), [&](const Node* one) { return is_inside(call, one); });
    if (is_clipping(w, call) && !is_covered)
      w.refuse(
          call,
          "weave does not see of which step these gradients are; write optimizer.step() in the same block");
  }
}

bool has_several_optimizers(const TorchWeaving& w) {
  std::set<int> places;
  for (const TorchOptimizer& optimizer : w.program.optimizers)
    places.insert(w.names.place(kept_in(w, optimizer)->list("targets")[0]));
  return places.size() > 1;
}

}  // namespace

void write_horovod(TorchWeaving& w) {
  const std::string hvd = w.dialect.module();
  const bool several = has_several_optimizers(w) || has_repeated_backward(w);
  for (const TorchOptimizer& optimizer : w.program.optimizers) {
    const Node* statement = kept_in(w, optimizer);
    const Node* target = statement->list("targets")[0];
    if (optimizer.name == "LBFGS")
      w.refuse(optimizer.call, "Horovod cannot average within LBFGS's search: use --target ddp");
    const std::string name = w.text(*target);
    std::vector<std::string> text;
    for (const size_t model : optimizer.models) {
      text.push_back(hvd + ".broadcast_parameters(" +
                     visible_model(w, w.program.models[model], optimizer, statement) +
                     ".state_dict(), root_rank=0)");
    }
    text.push_back(hvd + ".broadcast_optimizer_state(" + name + ", root_rank=0)");
    w.dialect.use(statement);
    if (several) {
      w.edits.after(*statement, text);
      w.edits.explain(statement->line, text.front(), "all processes start with rank 0's state");
      continue;
    }
    const std::string named =
        optimizer.models.size() == 1
            ? ", named_parameters=" +
                  visible_model(w, w.program.models[optimizer.models[0]], optimizer, statement) +
                  ".named_parameters()"
            : std::string();
    text.push_back(name + " = " + hvd + ".DistributedOptimizer(" + name + named +
                   passes(w, optimizer, statement) + ")");
    w.edits.after(*statement, text);
    w.edits.explain(statement->line, text.back(),
                    "averages the gradients before each step; all processes start with rank 0's state");
  }
  for (const Node* call : w.names.calls()) {
    if (w.names.callee(call) == "torch.nn.DataParallel") write_data_parallel(w, call);
  }
  if (several) return write_averages(w);
  // Operations that Horovod performs in a different order than one process does.
  std::set<const Node*> scaled;  // blocks with a GradScaler step
  for (const Node* call : w.names.calls()) write_scaler(w, call, scaled);
  for (const Node* call : w.names.calls()) {
    const Node* function = call->child("func");
    const Node* to_none = w.names.keyword(call, "set_to_none");
    if (!function->is(Kind::attribute) || function->text != "zero_grad" || to_none == nullptr) continue;
    w.edits.remove_argument(*call, *to_none);
    w.edits.explain(call->line, "zero_grad() without set_to_none",
                    "Horovod's optimizer does not accept set_to_none");
  }
  for (const Node* call : w.names.calls()) {
    if (is_clipping(w, call) && !scaled.contains(statement_of(call)->parent)) write_clipping(w, call);
  }
}

}  // namespace telar::weave
