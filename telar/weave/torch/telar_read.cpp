// Which statements of a loop are one training step, and which of them compute its loss.
#include <algorithm>
#include <array>

#include "telar/weave/torch/telar_step.h"

namespace telar::weave {

namespace {

constexpr const char* kAccumulates =
    "the optimizer does not step after each backward pass, so gradients of several batches add up (gradient accumulation); a step of Telar sets them to zero itself: use a larger batch, and call zero_grad(), backward() and optimizer.step() for each";
constexpr const char* kScaler =
    "a GradScaler is for float16, which Telar does not compute; leave it out, and use torch.autocast with dtype=torch.bfloat16, which becomes precision=\"bf16\"";

const Node* method_of(const Node* call) {
  const Node* function = call->child("func");
  return function->is(Kind::attribute) ? function : nullptr;
}

bool calls_method(const Node* call, std::string_view name) {
  const Node* method = method_of(call);
  return method != nullptr && method->text == name;
}

class StepReader {
 public:
  StepReader(const TorchWeaving& weaving, const Node* backward) : w_(weaving), names_(weaving.names) {
    step_.backward = backward;
    step_.function = function_of(backward);
    step_.loop = around(backward);
  }

  TelarStep read() {
    read_backward();
    read_optimizer();
    read_lines();
    read_zero_grad();
    read_clipping();
    check_gradients();
    check_model();
    read_loss();
    return std::move(step_);
  }

 private:
  static const Node* around(const Node* backward) {
    const Node* loop = loop_around(backward);
    return loop != nullptr ? loop : function_of(backward);
  }

  void read_backward() {
    const Node* call = step_.backward;
    const Node* receiver = method_of(call)->child("value");
    if (receiver->is(Kind::call) && calls_method(receiver, "scale")) w_.refuse(call, kScaler);
    if (!call->list("args").empty() || !call->list("keywords").empty())
      w_.refuse(call,
                "a step of Telar makes one backward pass from one number; call backward() without arguments");
    if (statement_of(call)->child("value") != call || !statement_of(call)->is(Kind::expr))
      w_.refuse(call, "put backward() on a line of its own");
    if (step_.loop == nullptr)
      w_.refuse(call, "this step is made once, in no loop; weave gives Telar the steps of a loop");
    if (receiver->is(Kind::name) || receiver->is(Kind::attribute)) step_.loss = w_.text(*receiver);
  }

  /// The optimizers of the program that an expression may be.
  std::vector<const TorchOptimizer*> optimizers_of(const Node* expression) const {
    std::vector<const TorchOptimizer*> found;
    const auto origins = names_.origins(expression);
    for (const TorchOptimizer& one : w_.program.optimizers)
      if (std::find(origins.begin(), origins.end(), one.call) != origins.end()) found.push_back(&one);
    return found;
  }

  void read_optimizer() {
    std::vector<const Node*> steps;
    for (const Node* call : names_.calls()) {
      if (!is_inside(call, step_.loop) || !calls_method(call, "step")) continue;
      const Node* receiver = method_of(call)->child("value");
      const bool scales = !call->list("args").empty() && !optimizers_of(call->list("args")[0]).empty();
      if (scales && optimizers_of(receiver).empty()) w_.refuse(call, kScaler);
      if (!optimizers_of(receiver).empty()) steps.push_back(call);
    }
    const auto unknown = std::find_if(names_.calls().begin(), names_.calls().end(), [&](const Node* call) {
      return calls_method(call, "step") &&
             block_of(statement_of(call)).data() == block_of(statement_of(step_.backward)).data();
    });
    if (steps.empty() && unknown != names_.calls().end())
      w_.refuse(
          *unknown,
          "weave does not see which optimizer this is; keep one optimizer in one variable, and write a loop for each");
    if (steps.empty())
      w_.refuse(
          step_.backward,
          "the optimizer's step() is not in the same loop; call it after backward(), in the same block");
    const auto made = optimizers_of(method_of(steps[0])->child("value"));
    if (steps.size() == 1 && made.size() > 1)
      w_.refuse(
          steps[0],
          "this may be one of several optimizers, and a step of Telar has one; write the loop once for each of them");
    for (const Node* other : steps) {
      if (optimizers_of(method_of(other)->child("value")) != made || made.size() > 1)
        w_.refuse(
            other,
            "the loop trains with several optimizers, such as those of a GAN; a step of Telar has one loss, one module and one optimizer: use --target ddp or horovod");
    }
    for (const Node* other : w_.program.backwards) {
      if (other != step_.backward && around(other) == step_.loop)
        w_.refuse(other, "the loop has several backward passes; a step of Telar has one loss and makes one");
    }
    if (steps.size() > 1)
      w_.refuse(steps[1], "the optimizer makes several steps in the loop; let it make one");
    if (!steps[0]->list("args").empty() || !steps[0]->list("keywords").empty())
      w_.refuse(
          steps[0],
          "the optimizer calls a closure, several times a step; Telar has SGD, Adam, AdamW, RMSprop and Adagrad");
    step_.stepping = statement_of(steps[0]);
    step_.optimizer = method_of(steps[0])->child("value");
    step_.made = made[0];
    static constexpr std::array<std::string_view, 6> known = {"",      "SGD",     "Adam",
                                                              "AdamW", "RMSprop", "Adagrad"};
    if (std::find(known.begin(), known.end(), made[0]->name) == known.end())
      w_.refuse(made[0]->call,
                "Telar has no optimizer " + made[0]->name + "; it has SGD, Adam, AdamW, RMSprop and Adagrad");
    const Node* own = names_.definition(made[0]->call->child("func"));
    if (own != nullptr && own->is(Kind::class_def))
      w_.refuse(made[0]->call, "Telar does not know what a class derived from an optimizer does; use " +
                                   made[0]->name + " itself");
    if (made[0]->models.size() != 1)
      w_.refuse(
          made[0]->call,
          "the optimizer updates several modules, and a step of Telar has one; make them parts of one torch.nn.Module");
    step_.model = &w_.program.models[made[0]->models[0]];
    check_schedules();
  }

  /// Schedules that also change the momentum, which is fixed in a step.
  void check_schedules() const {
    for (const Node* call : w_.program.schedulers) {
      const std::string& callee = names_.callee(call);
      if (!callee.ends_with(".OneCycleLR") && !callee.ends_with(".CyclicLR")) continue;
      const Node* optimizer = names_.argument(call, "optimizer", 0);
      const Node* cycles = names_.keyword(call, "cycle_momentum");
      const bool changes = cycles == nullptr || cycles->child("value")->text != "False";
      if (changes && optimizer != nullptr && is_optimizer_of(w_, step_, optimizer))
        w_.refuse(
            call,
            "this schedule changes the momentum (or Adam's beta) as well, and a step of Telar keeps it; add cycle_momentum=False");
    }
  }

  void read_lines() {
    const Node* last = statement_of(step_.backward);
    for (const Node* outer = last->parent; outer != step_.loop; outer = outer->parent) {
      if (outer->is(Kind::with) && is_autocast(*outer))
        w_.refuse(outer, "end the autocast block before backward(), as PyTorch advises");
    }
    const Nodes block = block_of(last);
    const bool is_beside = std::find(block.begin(), block.end(), step_.stepping) != block.end();
    if (!is_beside || step_.stepping->begin < last->begin) {
      const bool is_conditional = step_.stepping->parent->is(Kind::if_);
      w_.refuse(step_.stepping,
                is_conditional ? kAccumulates : "call optimizer.step() after backward(), in the same block");
    }
    if (!step_.stepping->is(Kind::expr))
      w_.refuse(step_.stepping, "put optimizer.step() on a line of its own");
    for (const Node* statement : block) {
      if (statement->begin > step_.stepping->begin) break;
      if (!statement->is(Kind::with) || !is_autocast(*statement)) {
        step_.lines.push_back(statement);
        continue;
      }
      check_autocast(*statement->list("items")[0]->child("context_expr"));
      step_.autocast = statement;
      for (const Node* inner : statement->list("body")) step_.lines.push_back(inner);
    }
    step_.removed = {last, step_.stepping};
  }

  bool is_autocast(const Node& with) const {
    const Node* context = with.list("items")[0]->child("context_expr");
    return context->is(Kind::call) && names_.callee(context).starts_with("torch.") &&
           names_.callee(context).ends_with("autocast");
  }

  void check_autocast(const Node& call) const {
    const std::string& callee = names_.callee(&call);
    const bool has_device = callee == "torch.autocast" || callee == "torch.amp.autocast";
    const Node* dtype = names_.argument(&call, "dtype", 1);
    const Node* device = has_device ? names_.argument(&call, "device_type", 0) : nullptr;
    const bool by_default =
        dtype == nullptr && (callee.starts_with("torch.cpu.") ||
                             (device != nullptr && device->is_string() && device->text == "cpu"));
    const Node* enabled = names_.keyword(&call, "enabled");
    const bool is_on = enabled == nullptr || enabled->child("value")->text == "True";
    if (!is_on || (!by_default && names_.qualified(dtype) != "torch.bfloat16"))
      w_.refuse(
          &call,
          "Telar computes in f32, or in bf16 for products and convolutions; autocast needs dtype=torch.bfloat16, without a condition");
  }

  /// Whether a statement is made in every round of the loop in which the step is made.
  bool is_in_each_step(const Node* statement) const {
    for (const Node* outer = statement->parent; outer != step_.loop; outer = outer->parent)
      if (!is_inside(step_.backward, outer)) return false;
    return true;
  }

  void read_zero_grad() {
    bool found = false;
    const Node* last = statement_of(step_.backward);
    for (const Node* call : names_.calls()) {
      if (!is_inside(call, step_.loop) || !calls_method(call, "zero_grad")) continue;
      const Node* receiver = method_of(call)->child("value");
      if (!is_optimizer_of(w_, step_, receiver) && !is_model_of(w_, step_, receiver)) continue;
      const Node* statement = statement_of(call);
      if (!is_in_each_step(statement)) w_.refuse(call, kAccumulates);
      if (statement->begin > last->begin && statement->begin < step_.stepping->begin)
        w_.refuse(call, "the gradients are set to zero before the optimizer uses them");
      found = true;
      if (block_of(statement).data() == block_of(last).data()) step_.removed.push_back(statement);
    }
    found = found ||
            reaches(names_, step_.loop, [](const Node* call) { return calls_method(call, "zero_grad"); });
    if (!found)
      w_.refuse(step_.backward, std::string("zero_grad() is not called in the loop: ") + kAccumulates);
  }

  void read_clipping() {
    static constexpr std::string_view kClips = "clip_grad_";
    for (const Node* call : names_.calls()) {
      const Node* function = call->child("func");
      const bool clips = function->text.starts_with(kClips) || function->text == "unscale_";
      if (!clips || !is_inside(call, step_.loop)) continue;
      const Node* statement = statement_of(call);
      const bool is_between = statement->begin > step_.backward->begin &&
                              statement->begin < step_.stepping->begin &&
                              block_of(statement).data() == block_of(step_.stepping).data();
      if (function->text.starts_with("clip_grad_value"))
        w_.refuse(call, "Telar clips the gradient by its norm, not value by value; use clip_grad_norm_");
      if (function->text == "unscale_") w_.refuse(call, kScaler);
      if (!is_between || !statement->is(Kind::expr) || statement->child("value") != call)
        w_.refuse(
            call,
            "Telar clips within its step; call clip_grad_norm_ between backward() and optimizer.step(), on a line of its own and without a condition");
      read_norm(call);
      step_.removed.push_back(statement);
    }
    const auto clips = [&](const Node* call) { return call->child("func")->text.starts_with(kClips); };
    for (const Node* statement : step_.loop->list("body")) {
      for (const Node* call : names_.calls()) {
        const bool hides = is_inside(call, statement) && names_.called_function(call) != nullptr &&
                           reaches(names_, call, clips);
        if (hides)
          w_.refuse(
              call,
              "this function clips gradients, which are Telar's; call clip_grad_norm_ in the loop itself");
      }
    }
  }

  void read_norm(const Node* call) {
    const Node* parameters = names_.argument(call, "parameters", 0);
    const Node* norm = names_.argument(call, "max_norm", 1);
    const Node* kind = names_.argument(call, "norm_type", 2);
    const bool of_model = parameters != nullptr && parameters->is(Kind::call) &&
                          calls_method(parameters, "parameters") &&
                          is_model_of(w_, step_, method_of(parameters)->child("value"));
    if (!of_model || norm == nullptr)
      w_.refuse(call,
                "Telar clips the norm over all parameters; pass model.parameters() and the greatest norm");
    if (kind != nullptr && kind->text != "2" && kind->text != "2.0")
      w_.refuse(kind, "Telar clips by the Euclidean norm (norm_type 2)");
    if (step_.clip != nullptr) w_.refuse(call, "the gradient is clipped twice; clip it once");
    if (const Node* name = changing_name(w_, step_, *norm))
      w_.refuse(name,
                "the greatest norm changes while the model is trained; Telar keeps that of the first step");
    step_.clip = norm;
  }

  /// Gradients stay within Telar.
  void check_gradients() const {
    for (const Node* statement : step_.loop->list("body")) {
      const Node* place = nullptr;
      const auto takes = [&](const Node& node) {
        const bool grad = node.is(Kind::attribute) && node.text == "grad";
        if (grad && place == nullptr) place = &node;
        return grad;
      };
      if (reaches_node(names_, *statement, takes))
        w_.refuse(
            place,
            "gradients are computed within Telar's step and are not in the tensors; train without reading them, or use --target ddp");
    }
  }

  /// Wrappers around the module that hide it, or that compile it.
  void check_model() const {
    for (const Node* call : names_.calls()) {
      const std::string callee = names_.qualified(call->child("func"));
      const bool compiles = callee == "torch.compile" || callee == "torch.jit.script";
      const bool divides = callee == "torch.nn.DataParallel";
      if (call->list("args").empty() || (!compiles && !divides)) continue;
      if (!is_model_of(w_, step_, call->list("args")[0])) continue;
      bool is_conditional = false;
      for (const Node* around = call; around != nullptr && !around->is_function(); around = around->parent)
        is_conditional = is_conditional || around->is(Kind::if_) || around->is(Kind::if_exp);
      if (compiles) w_.refuse(call, "Telar compiles the step itself; leave out " + callee);
      if (!is_conditional)
        w_.refuse(call, "Telar divides the batch itself, on the processor; leave out nn.DataParallel");
    }
  }

  bool is_removed(const Node* statement) const {
    return std::find(step_.removed.begin(), step_.removed.end(), statement) != step_.removed.end();
  }

  /// The statements on which the loss depends, backwards from backward().
  void read_loss() {
    const Node* last = statement_of(step_.backward);
    std::vector<const Node*> before;
    for (const Node* line : step_.lines)
      if (line->begin < last->begin && !is_removed(line)) before.push_back(line);
    const std::vector<bool> by_model = computed_by_model(before);
    std::vector<bool> needed(before.size(), false);
    std::set<std::string_view> wanted = read_by(names_, *method_of(step_.backward)->child("value"));
    for (size_t i = before.size(); i-- > 0;) {
      const auto assigned = assigned_by(names_, *before[i]);
      needed[i] =
          std::any_of(assigned.begin(), assigned.end(), [&](auto one) { return wanted.contains(one); });
      if (needed[i]) step_back(*before[i], wanted);
    }
    for (size_t i = 0; i < before.size(); ++i) {
      if (needed[i] && (by_model[i] || begins_sum(before, i, by_model, needed)))
        step_.computing.push_back(before[i]);
    }
    check_computing(wanted);
    step_.applied = find_applied();
  }

  /// From what is wanted after a statement to what is wanted before it.
  void step_back(const Node& statement, std::set<std::string_view>& wanted) const {
    const auto add = [&](const Node* node) {
      if (node == nullptr) return;
      const auto read = read_by(names_, *node);
      wanted.insert(read.begin(), read.end());
    };
    const auto through = [&](Nodes block, std::set<std::string_view> after) {
      for (size_t i = block.size(); i-- > 0;) step_back(*block[i], after);
      return after;
    };
    if (statement.is(Kind::with)) {
      wanted = through(statement.list("body"), wanted);
      for (const Node* item : statement.list("items")) add(item);
    } else if (statement.is(Kind::if_)) {
      const auto otherwise = through(statement.list("orelse"), wanted);
      wanted = through(statement.list("body"), wanted);
      wanted.insert(otherwise.begin(), otherwise.end());
      add(statement.child("test"));
    } else if (statement.is(Kind::for_)) {
      auto before = through(statement.list("body"), wanted);
      for (const std::string_view one : assigned_by(names_, *statement.child("target"))) before.erase(one);
      wanted.insert(before.begin(), before.end());
      add(statement.child("iter"));
    } else {
      if (statement.is(Kind::assign) || statement.is(Kind::ann_assign))
        for (const std::string_view one : assigned_by(names_, statement)) wanted.erase(one);
      add(&statement);
    }
  }

  /// For each statement, whether it applies the model or uses what such a statement has computed.
  std::vector<bool> computed_by_model(const std::vector<const Node*>& lines) const {
    std::vector<bool> found;
    std::set<std::string_view> values;
    for (const Node* line : lines) {
      found.push_back(mentions_model(w_, step_, *line) || reads_any(names_, *line, values));
      for (const std::string_view one : assigned_by(names_, *line)) {
        if (found.back()) {
          values.insert(one);
        } else if (line->is(Kind::assign)) {
          values.erase(one);
        }
      }
    }
    return found;
  }

  /// `loss = 0` before a loop that adds to it.
  bool begins_sum(const std::vector<const Node*>& lines, size_t at, const std::vector<bool>& by_model,
                  const std::vector<bool>& needed) const {
    const auto assigned = assigned_by(names_, *lines[at]);
    for (size_t i = at + 1; i < lines.size(); ++i) {
      if (!needed[i] || !by_model[i]) continue;
      const auto again = assigned_by(names_, *lines[i]);
      const auto read = read_by(names_, *lines[i]);
      for (const std::string_view one : assigned)
        if (again.contains(one) && read.contains(one)) return true;
    }
    return false;
  }

  /// `from_before`: what the statements read of an earlier round, or of before the loop.
  void check_computing(const std::set<std::string_view>& from_before) const {
    const Node* receiver = method_of(step_.backward)->child("value");
    const bool applies = mentions_model(w_, step_, *receiver) ||
                         std::any_of(step_.computing.begin(), step_.computing.end(),
                                     [&](const Node* line) { return mentions_model(w_, step_, *line); });
    if (!applies)
      w_.refuse(
          step_.backward,
          "the loss is not computed from the model beside backward(); put forward pass, loss, backward() and optimizer.step() into one block");
    for (const Node* line : step_.computing) {
      for (const std::string_view one : assigned_by(names_, *line)) {
        if (from_before.contains(one))
          w_.refuse(
              line,
              "'" + std::string(one) +
                  "' passes from one step to the next, such as a hidden state; a step of Telar returns the loss alone: let the model begin each batch anew");
      }
      walk(*line, [&](const Node& node) {
        const bool is_number =
            node.is(Kind::call) &&
            (calls_method(&node, "item") || calls_method(&node, "numpy") || names_.callee(&node) == "print");
        if (is_number || node.is(Kind::return_))
          w_.refuse(
              &node,
              "the loss is computed through Python here, which a graph cannot; put this after backward() and optimizer.step()");
        return true;
      });
    }
    if (step_.autocast == nullptr) return;
    for (const Node* line : step_.autocast->list("body")) {
      if (std::find(step_.computing.begin(), step_.computing.end(), line) == step_.computing.end())
        w_.refuse(line, "only the forward pass and the loss belong into the autocast block");
    }
  }

  /// An expression for the model in the function of the step.
  const Node* find_applied() const {
    const Node* found = nullptr;
    const auto look = [&](const Node& node) {
      const bool is_variable = (node.is(Kind::name) || node.is(Kind::attribute)) && !node.store;
      if (found == nullptr && is_variable && function_of(&node) == step_.function &&
          is_model_of(w_, step_, &node))
        found = &node;
      return found == nullptr;
    };
    for (const Node* line : step_.computing) walk(*line, look);
    walk(*step_.backward, look);
    if (found == nullptr)
      walk(step_.function != nullptr ? *step_.function : *module_of(step_.backward), look);
    if (found == nullptr)
      w_.refuse(step_.backward,
                "weave does not see which variable of this function has the model; give the model to it");
    return found;
  }

  const TorchWeaving& w_;
  const Names& names_;
  TelarStep step_;
};

}  // namespace

bool TelarStep::contains(const Node* node) const {
  const Node* statement = statement_of(node);
  const auto is_around = [&](const Node* one) { return is_inside(statement, one); };
  return std::any_of(computing.begin(), computing.end(), is_around) ||
         std::any_of(removed.begin(), removed.end(), is_around);
}

TelarStep read_telar_step(const TorchWeaving& weaving, const Node* backward) {
  return StepReader(weaving, backward).read();
}

}  // namespace telar::weave
