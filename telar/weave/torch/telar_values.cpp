// What a script does with the values of a model that is in Telar's hands: who reads them, who changes them,
// and which numbers of the loss change from step to step.
#include <algorithm>
#include <array>

#include "telar/weave/torch/telar_step.h"

namespace telar::weave {

namespace {

bool shares_origin(const Names& names, const Node* expression, const std::vector<const Node*>& origins) {
  const auto found = names.origins(expression);
  return std::any_of(found.begin(), found.end(), [&](const Node* origin) {
    return std::find(origins.begin(), origins.end(), origin) != origins.end();
  });
}

bool is_variable(const Node& node) {
  return node.is(Kind::name) || node.is(Kind::attribute) || node.is(Kind::subscript);
}

/// The attribute by which a mention is used: `train` of `model.train()`; empty if there is none.
std::string_view attribute_after(const Node& mention) {
  const Node* parent = mention.parent;
  return parent->is(Kind::attribute) && mention.role == "value" ? parent->text : "";
}

template <size_t Count>
bool is_one_of(std::string_view word, const std::array<std::string_view, Count>& words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

bool reaches_unseen(const Names& names, const Node& node, const std::function<bool(const Node&)>& wanted,
                    std::set<const Node*>& seen) {
  bool found = false;
  walk(node, [&](const Node& inner) {
    if (found) return false;
    if (wanted(inner)) {
      found = true;
      return false;
    }
    if (!inner.is(Kind::call)) return true;
    const Node* function = names.called_function(&inner);
    if (function != nullptr && seen.insert(function).second)
      found = found || reaches_unseen(names, *function, wanted, seen);
    return !found;
  });
  return found;
}

/// Whether a mention is only handed to a function of the program, whose own mentions count.
bool is_handed_on(const Names& names, const Node& mention) {
  const Node* call = mention.role == "args" ? mention.parent : nullptr;
  if (mention.parent->is(Kind::keyword)) call = mention.parent->parent;
  return call != nullptr && call->is(Kind::call) && names.called_function(call) != nullptr;
}

/// `p` of `for p in model.parameters()`.
bool is_parameter_of_module(const Names& names, const Node* expression) {
  const Node* base = expression;
  while (base->is(Kind::attribute) || base->is(Kind::subscript)) base = base->child("value");
  if (!base->is(Kind::name)) return false;
  const auto& values = names.values(names.place(base));
  return std::any_of(values.begin(), values.end(), [&](const Value& value) {
    return value.element && names.tree().text(*value.node).find("parameters(") != std::string_view::npos;
  });
}

/// Whether a call changes values of a module: `model.load_state_dict(…)`, `p.data.clamp_(…)`,
/// `init.zeros_(p)`.
bool is_change(const TorchWeaving& w, const TelarStep& step, const Node& call) {
  static constexpr std::array<std::string_view, 9> readers = {
      "torch.save", "print", "len", "next", "isinstance", "copy.deepcopy", "sum", "list", "hasattr"};
  const Node* function = call.child("func");
  const std::string& callee = w.names.callee(&call);
  if (callee.starts_with("torch.nn.init.")) return true;
  if (function->is(Kind::attribute)) {
    const Node* receiver = function->child("value");
    if (function->text == "load_state_dict")
      return is_model_of(w, step, receiver) || is_optimizer_of(w, step, receiver);
    const bool in_place = function->text.ends_with('_') && !function->text.starts_with('_') &&
                          function->text != "requires_grad_";
    const bool of_values = w.text(*receiver).find(".data") != std::string::npos ||
                           is_parameter_of_module(w.names, receiver) || mentions_model(w, step, *receiver);
    if (in_place && of_values) return true;
  }
  if (w.names.called_function(&call) != nullptr || is_one_of(callee, readers)) return false;
  const Nodes given = call.list("args");
  return std::any_of(given.begin(), given.end(), [&](const Node* one) { return is_model_of(w, step, one); });
}

/// Whether an expression is an object of a library that was made of the model, such as an average of its
/// weights. Schedules only set the learning rate.
bool is_made_of_values(const TorchWeaving& w, const TelarStep& step, const Node& expression) {
  if ((!expression.is(Kind::name) && !expression.is(Kind::attribute)) || expression.store) return false;
  const auto& schedules = w.program.schedulers;
  const auto origins = w.names.origins(&expression);
  return std::any_of(origins.begin(), origins.end(), [&](const Node* origin) {
    const bool is_object = origin->is(Kind::call) && w.names.definition(origin->child("func")) == nullptr &&
                           origin != step.made->call && !is_inside(origin, step.loop) &&
                           std::find(schedules.begin(), schedules.end(), origin) == schedules.end() &&
                           !is_model_of(w, step, &expression);
    if (!is_object) return false;
    const Nodes given = origin->list("args");
    return std::any_of(given.begin(), given.end(), [&](const Node* one) {
      bool found = false;
      walk(*one, [&](const Node& node) {
        found = found || is_model_of(w, step, &node) || is_optimizer_of(w, step, &node);
        return !found;
      });
      return found;
    });
  });
}

/// Whether a variable of the program is assigned where that happens again and again. `region`: the outermost
/// loop around its use, if they are in the same function.
bool is_assigned_again(const Names& names, const Node& use, int place, const Node* region) {
  const auto& mentions = names.mentions(place);
  return std::any_of(mentions.begin(), mentions.end(), [&](const Node* mention) {
    if (!mention->store) return false;
    if (function_of(mention) == function_of(&use) && module_of(mention) == module_of(&use))
      return region != nullptr && is_inside(mention, region);
    const Node* function = function_of(mention);
    return loop_around(mention) != nullptr ||
           (function != nullptr && function->text != "__init__" && is_repeated(names, function));
  });
}

const Node* outermost_around(const Node* node) {
  const Node* found = nullptr;
  for (const Node* loop = loop_around(node); loop != nullptr; loop = loop_around(loop)) found = loop;
  return found;
}

class Changes {
 public:
  Changes(const TorchWeaving& weaving, const TelarStep& step) : w_(weaving), step_(step) {}

  const Node* in(const Node& expression, const Node* region, int depth) const {
    const Node* found = nullptr;
    walk(expression, [&](const Node& node) {
      if (found != nullptr || node.is(Kind::lambda)) return false;
      if (!node.is(Kind::name) && !node.is(Kind::attribute)) return true;
      if (node.store || is_model_of(w_, step_, &node) || w_.names.definition(&node) != nullptr) return false;
      if (!w_.names.qualified(&node).empty()) return false;
      if (changes(node, region, depth)) found = &node;
      return found == nullptr;
    });
    return found;
  }

 private:
  bool changes(const Node& node, const Node* region, int depth) const {
    const int place = w_.names.place(&node);
    if (place < 0) return node.is(Kind::attribute) && is_set_elsewhere(node);
    const Node* scope = w_.names.scope(place);
    if (!scope->is_function() && !scope->is(Kind::module) && !scope->is(Kind::class_def)) return false;
    if (is_assigned_again(w_.names, node, place, region)) return true;
    if (depth == 0 || !node.is(Kind::name) || !w_.names.is_parameter(place)) return false;
    const auto& values = w_.names.values(place);
    return std::any_of(values.begin(), values.end(), [&](const Value& value) {
      return !is_inside(value.node, scope) && value.part < 0 &&
             in(*value.node, outermost_around(value.node), depth - 1) != nullptr;
    });
  }

  /// An attribute of an object that is not known, such as `args.weight`.
  bool is_set_elsewhere(const Node& attribute) const {
    const auto& nodes = w_.names.tree().nodes();
    return std::any_of(nodes.begin(), nodes.end(), [&](const Node& node) {
      return node.is(Kind::attribute) && node.store && node.text == attribute.text &&
             outermost_around(&node) != nullptr;
    });
  }

  const TorchWeaving& w_;
  const TelarStep& step_;
};

}  // namespace

std::set<std::string_view> assigned_by(const Names& names, const Node& statement) {
  static constexpr std::array<std::string_view, 4> adders = {"append", "extend", "insert", "update"};
  std::set<std::string_view> found;
  walk(statement, [&](const Node& node) {
    if (node.is(Kind::comprehension) || node.is(Kind::lambda)) return false;
    if (node.is_function() || node.is(Kind::class_def)) {
      found.insert(node.text);
      return false;
    }
    if (node.store && (node.is(Kind::name) || node.is(Kind::attribute)))
      found.insert(names.tree().text(node));
    if (node.store && node.is(Kind::subscript)) found.insert(names.tree().text(*node.child("value")));
    if (node.is(Kind::expr) && node.child("value")->is(Kind::call)) {
      const Node* function = node.child("value")->child("func");
      if (function->is(Kind::attribute) &&
          (is_one_of(function->text, adders) || function->text.ends_with('_')))
        found.insert(names.tree().text(*function->child("value")));
    }
    return true;
  });
  return found;
}

std::set<std::string_view> read_by(const Names& names, const Node& node) {
  std::set<std::string_view> found;
  walk(node, [&](const Node& inner) {
    const bool is_read = !inner.store || (inner.role == "target" && inner.parent->is(Kind::aug_assign));
    if (is_read && (inner.is(Kind::name) || inner.is(Kind::attribute)))
      found.insert(names.tree().text(inner));
    return true;
  });
  return found;
}

bool reads_any(const Names& names, const Node& node, const std::set<std::string_view>& texts) {
  const auto read = read_by(names, node);
  return std::any_of(read.begin(), read.end(), [&](std::string_view text) { return texts.contains(text); });
}

bool reaches_node(const Names& names, const Node& node, const std::function<bool(const Node&)>& wanted) {
  std::set<const Node*> seen;
  return reaches_unseen(names, node, wanted, seen);
}

bool is_model_of(const TorchWeaving& w, const TelarStep& step, const Node* expression) {
  if (!is_variable(*expression)) return false;
  const int place = w.names.place(expression);
  return (place >= 0 && place == step.model->place) ||
         shares_origin(w.names, expression, step.model->origins);
}

bool is_optimizer_of(const TorchWeaving& w, const TelarStep& step, const Node* expression) {
  return is_variable(*expression) && shares_origin(w.names, expression, {step.made->call});
}

bool mentions_model(const TorchWeaving& w, const TelarStep& step, const Node& node) {
  static constexpr std::array<std::string_view, 5> modes = {"train", "eval", "training", "zero_grad", "to"};
  return reaches_node(w.names, node, [&](const Node& inner) {
    return is_variable(inner) && !inner.store && is_model_of(w, step, &inner) &&
           !is_one_of(attribute_after(inner), modes) && !is_handed_on(w.names, inner);
  });
}

bool uses_values(const TorchWeaving& w, const TelarStep& step, const Node& node) {
  static constexpr std::array<std::string_view, 3> rates = {"param_groups", "zero_grad", "defaults"};
  if (mentions_model(w, step, node)) return true;
  return reaches_node(w.names, node, [&](const Node& inner) {
    // An object that may have the model, in the hands of a function that is not known.
    const bool gives_self = inner.is(Kind::name) && inner.text == "self" && inner.role == "args" &&
                            inner.parent->is(Kind::call) && w.names.called_function(inner.parent) == nullptr;
    if (gives_self || is_made_of_values(w, step, inner)) return true;
    return is_variable(inner) && !inner.store && is_optimizer_of(w, step, &inner) &&
           !is_one_of(attribute_after(inner), rates) && !is_handed_on(w.names, inner);
  });
}

bool changes_values(const TorchWeaving& w, const TelarStep& step, const Node& node) {
  return reaches_node(w.names, node, [&](const Node& inner) {
    if (inner.is(Kind::attribute) && inner.store && inner.text == "data") return true;
    return inner.is(Kind::call) && is_change(w, step, inner);
  });
}

const Node* outermost_loop(const TelarStep& step) {
  const Node* loop = outermost_around(step.backward);
  return loop != nullptr ? loop : step.loop;
}

bool is_repeated(const Names& names, const Node* function) {
  if (function == nullptr) return false;
  if (names.calls_of(function).empty()) return class_of(function) != nullptr;
  return !loops_around_calls(names, function).empty();
}

std::vector<const Node*> loops_around_calls(const Names& names, const Node* function) {
  std::vector<const Node*> found;
  std::set<const Node*> seen;
  const std::function<void(const Node*)> collect = [&](const Node* called) {
    if (called == nullptr || !seen.insert(called).second) return;
    for (const Node* call : names.calls_of(called)) {
      if (const Node* loop = outermost_around(call)) found.push_back(loop);
      collect(function_of(call));
    }
  };
  collect(function);
  return found;
}

const Node* changing_name(const TorchWeaving& weaving, const TelarStep& step, const Node& expression) {
  return Changes(weaving, step).in(expression, outermost_loop(step), 4);
}

}  // namespace telar::weave
