// Which calls a statement may reach, through the functions of the program.
#include "telar/weave/torch/reach.h"

#include <algorithm>
#include <set>
#include <utility>

namespace telar::weave {

namespace {

using Entry = std::pair<const Node*, const Node*>;  // a function, and the call through which it was entered

/// Whether a call has arguments that cannot be known: `f(*args, **kwargs)`.
bool passes_unknown(const Node* call) {
  const auto& values = call->list("args");
  const auto& names = call->list("keywords");
  return std::any_of(values.begin(), values.end(), [](const Node* one) { return one->is(Kind::starred); }) ||
         std::any_of(names.begin(), names.end(), [](const Node* one) { return one->text.empty(); });
}

/// `entered`: the call through which the walk came to `node`; null at its beginning.
bool reaches_within(const Names& names, const Node* node, const Node* entered,
                    const std::function<bool(const Node*)>& wanted, std::set<Entry>& seen) {
  bool found = false;
  walk(*node, [&](const Node& inner) {
    if (found) return false;
    if (!inner.is(Kind::call)) return true;
    if (is_switched_off(names, &inner, entered)) return false;
    if (wanted(&inner)) {
      found = true;
      return false;
    }
    const auto enter = [&](const Node* function) {
      if (function != nullptr && seen.emplace(function, &inner).second)
        found = found || reaches_within(names, function, &inner, wanted, seen);
    };
    enter(names.called_function(&inner));
    // A function that is passed as an argument may be called there: optimizer.step(closure).
    for (const Node* given : inner.list("args")) {
      const Node* function = names.definition(given);
      if (function != nullptr && function->is_function()) enter(function);
    }
    return true;
  });
  return found;
}

}  // namespace

bool is_switched_off(const Names& names, const Node* node, const Node* call) {
  const Node* function = call == nullptr ? nullptr : function_of(node);
  if (function == nullptr || names.called_function(call) != function) return false;
  if (passes_unknown(call)) return false;
  const auto is_off = [](const Node* value) {
    return value->literal == Literal::null || (value->literal == Literal::boolean && value->text == "False");
  };
  const auto& parameters = function->child("args")->list("args");
  const auto& defaults = function->child("args")->list("defaults");
  for (const Node* around = node; around != function; around = around->parent) {
    if (!around->parent->is(Kind::if_) || around->role != "body") continue;
    const auto test = names.tree().text(*around->parent->child("test"));
    // `self`, unless the class is called: Trainer.step(trainer, batch)
    const Node* callee = call->child("func");
    const Node* owner = callee->is(Kind::attribute) ? names.definition(callee->child("value")) : nullptr;
    const bool of_class = owner != nullptr && owner->is(Kind::class_def);
    const int skipped = class_of(function) != nullptr && !of_class ? 1 : 0;
    for (size_t i = 0; i < parameters.size(); ++i) {
      const std::string name(parameters[i]->text);
      if ((test != name && test != name + " is not None") || assigns(function, name)) continue;
      const Node* given = names.argument(call, name, static_cast<int>(i) - skipped);
      if (given != nullptr) return is_off(given);
      const size_t without = parameters.size() - defaults.size();
      return i >= without && is_off(defaults[i - without]);
    }
  }
  return false;
}

bool reaches(const Names& names, const Node* node, const std::function<bool(const Node*)>& wanted) {
  std::set<Entry> seen;
  return reaches_within(names, node, nullptr, wanted, seen);
}

bool assigns(const Node* function, std::string_view name) {
  bool found = false;
  walk(*function, [&](const Node& node) {
    found = found || (node.is(Kind::name) && node.store && node.text == name);
    return !found;
  });
  return found;
}

}  // namespace telar::weave
