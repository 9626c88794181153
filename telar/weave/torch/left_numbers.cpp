// Numbers that the processes cannot join, and that a script only shows: with --only-training they stay those
// of each process. A number that decides about anything is none of them, because the processes would part.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>

#include "telar/weave/torch/writer.h"

namespace telar::weave {

namespace {

constexpr int kMostSteps = 4;  // from one variable to another

bool is_one_of(const Node& call, std::span<const std::string_view> methods) {
  const Node* function = call.child("func");
  return function->is(Kind::attribute) &&
         std::find(methods.begin(), methods.end(), function->text) != methods.end();
}

/// Calls that show their arguments.
bool shows(const Names& names, const Node& call) {
  static constexpr std::array<std::string_view, 11> kMethods = {
      "add_scalar", "add_scalars", "log",         "info",        "debug",          "warning",
      "write",      "writerow",    "set_postfix", "log_metrics", "set_description"};
  return names.qualified(call.child("func")) == "print" || is_one_of(call, kMethods);
}

/// Calls that keep their arguments in their object.
bool keeps(const Node& call) {
  static constexpr std::array<std::string_view, 2> kMethods = {"append", "extend"};
  return is_one_of(call, kMethods);
}

/// Whether two nodes are the same variable, or attributes of the same name, of whatever object.
bool may_be_same(const Node& a, const Node& b) { return a.is(b.kind) && a.text == b.text; }

/// The first statement that may depend on a variable or attribute, and does not only show it; null if there
/// is none. It may be of another object: an attribute is known by its name.
const Node* dependent_on(const Names& names, const Node& container, int steps = 0);

bool is_only_shown(const Names& names, const Node& mention, const Node& container, int steps);

bool are_only_shown(const Names& names, const Node& targets, int steps) {
  bool shown = true;
  walk(targets, [&](const Node& target) {
    if (target.is(Kind::name) || target.is(Kind::attribute))
      shown = shown && steps < kMostSteps && dependent_on(names, target, steps + 1) == nullptr;
    return target.is(Kind::tuple) || target.is(Kind::list);
  });
  return shown;
}

/// Whether what a function returns is only shown by all who call it.
bool result_is_only_shown(const Names& names, const Node& returning, const Node& container, int steps) {
  const Node* function = function_of(&returning);
  if (function == nullptr || !function->is_function() || steps >= kMostSteps) return false;
  const auto& calls = names.calls_of(function);
  return !calls.empty() && std::all_of(calls.begin(), calls.end(), [&](const Node* call) {
    return is_only_shown(names, *call, container, steps + 1);
  });
}

bool is_only_shown(const Names& names, const Node& mention, const Node& container, int steps) {
  const Node* statement = statement_of(&mention);
  if (mention.store) return true;
  for (const Node* around = mention.parent; around != statement; around = around->parent) {
    if (!around->is(Kind::call)) continue;
    const bool is_receiver = is_inside(&mention, around->child("func"));
    if (!is_receiver && names.called_function(around) != nullptr) return false;
    if (shows(names, *around)) return true;
    if (is_receiver && around->parent == statement && statement->is(Kind::expr))
      return true;  // changes itself
    if (!is_receiver && keeps(*around))
      return are_only_shown(names, *around->child("func")->child("value"), steps);
  }
  if (statement->is(Kind::return_)) return result_is_only_shown(names, *statement, container, steps);
  if (statement->is(Kind::for_) && is_inside(&mention, statement->child("iter")))
    return are_only_shown(names, *statement->child("target"), steps);
  const bool adds = statement->is(Kind::aug_assign);
  if (!adds && !statement->is(Kind::assign)) return false;
  const Nodes targets = adds ? Nodes{} : statement->list("targets");
  // What is put into something else, as in `group["lr"] = total`, may be read by a library.
  const auto is_shown = [&](const Node* target) {
    const Node* of = target->is(Kind::subscript) ? target->child("value") : target;
    const bool is_own = target->is(Kind::name) || target->is(Kind::tuple) ||
                        (target->is(Kind::attribute) && target->child("value")->text == "self");
    return is_inside(&mention, target) || may_be_same(*of, container) ||
           (is_own && are_only_shown(names, *of, steps));
  };
  return adds ? is_shown(statement->child("target")) : std::all_of(targets.begin(), targets.end(), is_shown);
}

const Node* dependent_on(const Names& names, const Node& container, int steps) {
  for (const Node& node : names.tree().nodes()) {
    if (may_be_same(node, container) && !is_only_shown(names, node, container, steps))
      return statement_of(&node);
  }
  return nullptr;
}

}  // namespace

void leave_numbers(TorchWeaving& w, const Node* node, const Node& container, const std::string& reason) {
  const Node& of = container.is(Kind::subscript) ? *container.child("value") : container;
  const Node* dependent = dependent_on(w.names, of);
  if (dependent != nullptr) {
    const std::string hint =
        w.dialect.choices().only_training
            ? fmt::format("; --only-training does not leave it, because line {} may depend on it",
                          w.names.tree().line_within(dependent->line))
            : "";
    w.refuse(node, reason + hint);
  }
  if (!w.dialect.choices().only_training)
    w.refuse(
        node,
        reason + "; or give --only-training, and the first process shows the numbers of its own batches");
  w.edits.note(node->line, "left as it is: " + w.text(of),
               "the first process shows the numbers of its own batches, because " + reason);
}

}  // namespace telar::weave
