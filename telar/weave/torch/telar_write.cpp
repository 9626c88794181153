// The target `telar`: the statements of a training step become one call of telar.torch.Step.
#include <fmt/format.h>

#include <algorithm>

#include "telar/weave/torch/telar_step.h"

namespace telar::weave {

namespace {

std::string joined(const std::vector<std::string>& words) {
  return fmt::format("{}", fmt::join(words, ", "));
}

class StepWriter {
 public:
  StepWriter(TorchWeaving& weaving, const TelarStep& step)
      : w_(weaving), names_(weaving.names), step_(step) {}

  void write() {
    loss_ = loss_of(w_, step_);
    name_ = names_.is_used("step") ? names_.fresh("telar_step") : "step";
    write_creation();
    write_call();
    for (const Node* line : step_.removed)
      if (line != place_) remove(*line);
    for (const Node* line : step_.computing)
      if (line != place_ && !step_.kept.contains(line)) remove(*line);
    if (step_.outputs != nullptr) write_outputs();
    if (!step_.is_called()) return write_round({step_.loop, step_.backward, ""});
    write_values(step_.loop->list("body"), {step_.loop, step_.backward, w_.text(*step_.optimizer)});
    write_callers(step_.function, w_.text(*step_.optimizer), 4);
  }

 private:
  /// A loop in which steps are made.
  struct Round {
    const Node* loop = nullptr;
    const Node* step = nullptr;  ///< the call that makes one
    std::string optimizer;       ///< its text, where the step's variable is in another function
  };

  /// The call of sync() or load() in a loop.
  std::string call_of(const std::string& what, const Round& round) {
    return round.optimizer.empty() ? name_ + "." + what + "()"
                                   : add_keeper(what, round.step) + "(" + round.optimizer + ")";
  }

  void write_round(const Round& round) {
    write_values(round.loop->list("body"), round);
    const std::string sync = call_of("sync", round);
    w_.edits.after(*round.loop, {sync});
    w_.edits.explain(round.loop->line, sync,
                     "writes the values that Telar has trained back into the module and the optimizer");
    if (!is_changed_outside(round.loop)) return;
    const std::string load = call_of("load", round);
    w_.edits.before(*round.loop, {load});
    w_.edits.explain(round.loop->line, load, "takes the values that the script may have changed since");
  }

  /// The loops that call a function which makes a step. `optimizer`: its text in the function.
  void write_callers(const Node* function, const std::string& optimizer, int depth) {
    const auto& calls = names_.calls_of(function);
    if (calls.empty() || depth == 0)
      w_.refuse(
          step_.backward,
          "each call of this function makes a step, and weave does not see the loop that calls it; put the step into the loop");
    for (const Node* call : calls) {
      const std::string there = seen_from(*call, function, optimizer);
      const Node* loop = loop_around(call);
      if (loop == nullptr && function_of(call) != nullptr) {
        write_callers(function_of(call), there, depth - 1);
      } else if (loop != nullptr) {
        write_round({loop, call, there});
        w_.dialect.use(call);
      }
    }
  }

  /// The text of the optimizer where a function is called. Throws Refusal if the caller does not have it.
  std::string seen_from(const Node& call, const Node* function, const std::string& optimizer) const {
    const auto& parameters = function->child("args")->list("args");
    const Node* callee = call.child("func");
    const bool is_method = class_of(function) != nullptr && callee->is(Kind::attribute);
    for (size_t i = 0; i < parameters.size(); ++i) {
      const std::string name(parameters[i]->text);
      if (is_method && i == 0 && optimizer.starts_with(name + "."))
        return w_.text(*callee->child("value")) + optimizer.substr(name.size());
      if (optimizer != name && !optimizer.starts_with(name + ".")) continue;
      const Node* given = names_.argument(&call, name, static_cast<int>(i) - (is_method ? 1 : 0));
      if (given != nullptr && (given->is(Kind::name) || given->is(Kind::attribute)))
        return w_.text(*given) + optimizer.substr(name.size());
    }
    const bool is_global = names_.means_the_same(step_.optimizer, &call);
    if (is_global) return optimizer;
    w_.refuse(
        &call,
        "this makes a step, but its caller does not have the optimizer, by which values are written back; give it to the function, or put the step into the loop");
  }

  /// A function that calls sync() or load() of an optimizer's step, if it has made one.
  std::string add_keeper(const std::string& what, const Node* at) {
    std::string name = names_.fresh(what + "_step");
    w_.dialect.function(
        {"def " + name + "(optimizer):",
         what == "sync"
             ? "    \"\"\"Writes the values that Telar has trained into the module and the optimizer.\"\"\""
             : "    \"\"\"Takes the values that the script may have changed.\"\"\"",
         "    if hasattr(optimizer, \"telar_step\"):", "        optimizer.telar_step." + what + "()"},
        at);
    return name;
  }

  void remove(const Node& line) {
    if (step_.autocast == nullptr || line.parent != step_.autocast) return w_.edits.remove(line);
    if (&line == step_.autocast->list("body").front() && place_ != step_.autocast)
      w_.edits.remove(*step_.autocast);
  }

  /// The loop before which the step is made: the outermost one that assigns nothing of what it is made of.
  const Node* anchor(const std::vector<const Node*>& parts) const {
    std::vector<const Node*> loops;
    if (step_.is_called()) return first_statement();
    for (const Node* loop = step_.loop; loop != nullptr; loop = loop_around(loop)) loops.push_back(loop);
    std::reverse(loops.begin(), loops.end());
    for (const Node* loop : loops) {
      if (std::all_of(parts.begin(), parts.end(),
                      [&](const Node* part) { return is_known_before(*part, loop); }))
        return loop;
    }
    w_.refuse(step_.backward,
              "the model, the optimizer or the loss is made anew for each batch; make them before the loop");
  }

  /// The first statement of the step that goes.
  const Node* first_statement() const {
    const auto found = std::find_if(step_.lines.begin(), step_.lines.end(),
                                    [&](const Node* line) { return step_.contains(line); });
    const bool in_autocast = step_.autocast != nullptr && (*found)->parent == step_.autocast;
    return in_autocast ? step_.autocast : *found;
  }

  /// Whether the variables of an expression are assigned before a loop, and not in it.
  bool is_known_before(const Node& expression, const Node* loop) const {
    bool known = true;
    walk(expression, [&](const Node& node) {
      if ((!node.is(Kind::name) && !node.is(Kind::attribute)) || node.store) return known;
      for (const Node* mention : names_.mentions(names_.place(&node)))
        known = known && !(mention->store && is_inside(mention, loop));
      return known;
    });
    return known;
  }

  void write_creation() {
    std::vector<const Node*> parts = {step_.applied, step_.optimizer};
    if (step_.clip != nullptr) parts.push_back(step_.clip);
    const Node* criterion = loss_.criterion.empty() ? nullptr : criterion_node();
    if (criterion != nullptr) parts.push_back(criterion);
    const Node* before = anchor(parts);
    std::string loss = loss_.criterion;
    std::vector<std::string> text;
    if (loss.empty()) {
      loss = names_.fresh("loss_of_batch");
      std::vector<std::string> parameters = {loss_.model};
      for (const StepArgument& one : loss_.arguments) parameters.push_back(one.name);
      const bool is_global = before->parent->is(Kind::module);
      text.insert(text.end(), is_global ? 2 : 1, "");
      text.push_back("def " + loss + "(" + joined(parameters) + "):");
      for (const std::string& line : loss_.lines) text.push_back(line.empty() ? line : "    " + line);
      text.insert(text.end(), is_global ? 2 : 1, "");
      w_.edits.explain(
          step_.backward->line, loss,
          "the loss of a batch as a function of the module and the batch, from the statements of the loop");
    }
    std::vector<std::string> given = {w_.text(*step_.applied), loss, w_.text(*step_.optimizer)};
    if (step_.clip != nullptr) given.push_back("clip_norm=" + w_.text(*step_.clip));
    if (step_.autocast != nullptr) given.emplace_back("precision=\"bf16\"");
    const std::string maker = step_.is_called() || is_repeated(names_, step_.function) ? add_cache() : "";
    if (maker.empty()) given.push_back("**" + options());
    const std::string made =
        (maker.empty() ? w_.dialect.module() + ".Step" : maker) + "(" + joined(given) + ")";
    text.push_back(name_ + " = " + made);
    w_.edits.before(*before, text);
    w_.dialect.use(before);
    w_.edits.explain(
        before->line, name_ + " = " + made,
        "forward pass, loss, backward pass and the optimizer's step on Telar's engine, by the strategy of " +
            options());
  }

  const Node* criterion_node() const {
    const Node* value = step_.loss.empty() ? step_.backward->child("func")->child("value")
                                           : step_.computing.back()->child("value");
    return value->child("func");
  }

  /// The variable of the strategy and its options.
  std::string options() {
    std::string name = names_.fresh("TELAR");
    w_.dialect.function({"# How Telar trains: a strategy and its options.",
                         name + " = " + w_.dialect.choices().telar_options},
                        step_.backward);
    return name;
  }

  /// The function that makes a step at its first call, for a loop that runs several times.
  std::string add_cache() {
    std::string name = names_.fresh("step_of");
    const std::string all = options();
    w_.dialect.function(
        {"def " + name + "(model, loss, optimizer, **options):",
         "    \"\"\"Telar's step of an optimizer, which keeps it from one call to the next.\"\"\"",
         "    if not hasattr(optimizer, \"telar_step\"):",
         "        optimizer.telar_step = " + w_.dialect.module() +
             ".Step(model, loss, optimizer, **options, **" + all + ")",
         "    optimizer.telar_step.loss = loss", "    return optimizer.telar_step"},
        step_.backward);
    return name;
  }

  /// Whether the script may change values of the model or of the optimizer between two runs of the loop.
  bool is_changed_outside(const Node* loop) const {
    std::vector<const Node*> regions = loops_around_calls(names_, function_of(loop));
    for (const Node* outer = loop_around(loop); outer != nullptr; outer = loop_around(outer))
      regions.push_back(outer);
    return std::any_of(regions.begin(), regions.end(),
                       [&](const Node* region) { return changes_values(w_, step_, *region); });
  }

  std::string arguments() const {
    std::vector<std::string> texts;
    for (const StepArgument& one : loss_.arguments) texts.push_back(one.text);
    return joined(texts);
  }

  /// What is given to a call of the step. What is computed is computed once, if there are two calls.
  std::string given() const {
    const bool computes =
        std::any_of(loss_.arguments.begin(), loss_.arguments.end(), [](const StepArgument& one) {
          bool found = false;
          walk(*one.expression, [&](const Node& node) {
            found = found || node.is(Kind::call);
            return !found;
          });
          return found;
        });
    return step_.outputs != nullptr && computes ? "*" + names_.fresh("step_batch") : arguments();
  }

  /// Puts the call in the place where the loss is computed, or of optimizer.step().
  void write_call() {
    place_ = find_place();
    std::string call = name_ + "(" + given() + ")";
    if (step_.is_loss_read)
      call = step_.loss + " = " + w_.dialect.module_name("torch", step_.backward) + ".tensor(" + call + ")";
    w_.edits.replace(statement_begin(*place_), place_->end, call);
    w_.edits.explain(place_->line, call, "one step: the loss is that of the batch before the step");
  }

  const Node* find_place() const {
    const Node* first = step_.computing.empty() ? statement_of(step_.backward) : step_.computing.front();
    const Node* assigns = nullptr;
    for (const Node* line : step_.computing)
      if (assigned_by(names_, *line).contains(step_.loss)) assigns = line;
    std::set<std::string_view> taken;  // by the statements of the loss so far
    std::set<std::string_view> loss = {step_.loss};
    const Node* reads = nullptr;
    const Node* matters = nullptr;
    for (const Node* line : step_.lines) {
      if (line->begin < first->begin) continue;
      if (step_.contains(line)) {
        const auto read = read_by(names_, *line);
        taken.insert(read.begin(), read.end());
        continue;
      }
      const auto assigned = assigned_by(names_, *line);
      const bool moves =
          std::any_of(assigned.begin(), assigned.end(), [&](auto one) { return taken.contains(one); });
      const bool after_loss = assigns == nullptr || line->begin > assigns->begin;
      if (moves && !after_loss)
        w_.refuse(line, "the batch changes between the forward pass and the loss; change it before");
      if (!after_loss) continue;
      if (moves || takes_part(*line)) matters = line;
      if (reads_any(names_, *line, loss)) reads = line;
    }
    if (assigns != nullptr && matters == nullptr)
      return step_.autocast != nullptr && assigns->parent == step_.autocast ? step_.autocast : assigns;
    if (assigns != nullptr && reads != nullptr)
      w_.refuse(
          matters,
          "this is done between the loss and optimizer.step(), which become one call; do it before the forward pass or after optimizer.step()");
    return step_.stepping;
  }

  /// Whether a statement has to do with the optimizer or the model, so that its place beside the step
  /// matters.
  bool takes_part(const Node& line) const {
    return reaches_node(names_, line, [&](const Node& node) {
      const bool is_variable = node.is(Kind::name) || node.is(Kind::attribute);
      const Node* function = node.is(Kind::call) ? node.child("func") : nullptr;
      const bool steps = function != nullptr && function->is(Kind::attribute) && function->text == "step";
      return steps || (is_variable && (is_optimizer_of(w_, step_, &node) || is_model_of(w_, step_, &node)));
    });
  }

  /// The outputs are computed where the script applies the model, of the whole batch.
  void write_outputs() {
    for (const Node* line : step_.lines) {
      const auto assigned = assigned_by(names_, *line);
      const bool comes_later =
          line->begin > step_.outputs->begin && line->begin < place_->begin && !step_.contains(line);
      const bool is_needed =
          std::any_of(loss_.arguments.begin(), loss_.arguments.end(),
                      [&](const StepArgument& one) { return reads_any(names_, *one.expression, assigned); });
      if (comes_later && is_needed)
        w_.refuse(
            line,
            "this part of the batch is made after the forward pass, whose outputs are used for more than the loss; make it before");
    }
    const std::string batch = given();
    if (batch.starts_with('*'))
      w_.edits.before(*statement_of(step_.outputs),
                      {batch.substr(1) + " = (" + arguments() + (loss_.arguments.size() == 1 ? ",)" : ")")});
    const std::string call = name_ + ".outputs(" + batch + ")";
    w_.edits.replace(*step_.outputs, call);
    w_.edits.explain(step_.outputs->line, call,
                     "the module's output before the step; once more, beside the step's own forward pass");
  }

  /// Writes values back before statements of the loop that use them, and takes what they change.
  void write_values(Nodes block, const Round& round) {
    for (const Node* statement : block) {
      if (step_.contains(statement) || statement == step_.autocast) continue;
      if (statement->is(Kind::if_)) {
        if (tests_use_values(*statement)) add_sync(*statement, round);
        write_branches(*statement, round);
        continue;
      }
      if (is_inside(round.step, statement)) {
        for (const std::string_view field : {"body", "orelse", "finalbody"})
          write_values(statement->list(field), round);
        continue;
      }
      const bool leaves = statement->is(Kind::return_) && !round.loop->is_function();
      if (!leaves && !yields(*statement) && !uses_values(w_, step_, *statement)) continue;
      add_sync(*statement, round);
      if (leaves || (!yields(*statement) && !changes_values(w_, step_, *statement))) continue;
      const std::string load = call_of("load", round);
      w_.edits.after(*statement, {load});
      w_.edits.explain(statement->line, load, "takes the values that this changes");
    }
  }

  /// Whether a generator gives control to its caller, who may use or change the values.
  static bool yields(const Node& statement) {
    bool found = false;
    walk(statement, [&](const Node& node) {
      found = found || node.is(Kind::yield);
      return !found && !node.is_function() && !node.is(Kind::lambda);
    });
    return found;
  }

  void write_branches(const Node& branch, const Round& round) {
    write_values(branch.list("body"), round);
    const Nodes other = branch.list("orelse");
    if (is_elif(other)) {
      write_branches(*other[0], round);
    } else {
      write_values(other, round);
    }
  }

  bool is_elif(Nodes block) const {
    return block.size() == 1 && block[0]->is(Kind::if_) &&
           names_.tree().source().compare(block[0]->begin, 4, "elif") == 0;
  }

  bool tests_use_values(const Node& branch) const {
    const Nodes other = branch.list("orelse");
    return uses_values(w_, step_, *branch.child("test")) || (is_elif(other) && tests_use_values(*other[0]));
  }

  void add_sync(const Node& statement, const Round& round) {
    const std::string sync = call_of("sync", round);
    w_.edits.before(statement, {sync});
    w_.edits.explain(statement.line, sync, "this uses the values that Telar has trained");
  }

  TorchWeaving& w_;
  const Names& names_;
  const TelarStep& step_;
  TelarLoss loss_;
  std::string name_;             // of the step's variable
  const Node* place_ = nullptr;  // the statement in whose place the call is
};

}  // namespace

void write_torch_telar(const Names& names, const TorchProgram& program, const Choices& choices,
                       Edits& edits) {
  Dialect dialect(names, edits, choices);
  TorchWeaving weaving{names, program, edits, dialect};
  if (program.backwards.empty())
    throw Refusal{names.tree().main().first_line, "no training",
                  "nothing runs a backward pass of this script"};
  for (const Node* backward : program.backwards) {
    TelarStep step = read_telar_step(weaving, backward);
    read_other_uses(weaving, step);
    StepWriter(weaving, step).write();
  }
  dialect.write("import telar.torch as " + dialect.module(), {}, {}, {});
}

}  // namespace telar::weave
