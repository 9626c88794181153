// Which computations treat each sample by itself: only then the samples of a tensor can be divided.
#include "telar/weave/torch/row_wise.h"

#include <algorithm>
#include <unordered_set>

namespace telar::weave {

namespace {

using Words = std::unordered_set<std::string_view>;

constexpr int kMean = -2;  // asks whether a value is a mean; not a part of a tuple

/// Functions and methods that treat each element by itself.
const Words& functions() {
  static const Words names = {"relu",    "relu6",  "leaky_relu", "elu",     "selu", "gelu",       "silu",
                              "sigmoid", "tanh",   "softplus",   "dropout", "abs",  "exp",        "log",
                              "sqrt",    "square", "pow",        "sin",     "cos",  "logsigmoid", "clamp"};
  return names;
}

/// Methods that change a tensor's type or place, not its rows.
const Words& keepers() {
  static const Words names = {"to",     "cuda",  "cpu",        "float",   "double",        "long",
                              "detach", "clone", "contiguous", "type_as", "requires_grad_"};
  return names;
}

/// Losses of torch.nn that are means over the rows.
const Words& losses() {
  static const Words names = {"MSELoss", "L1Loss",  "SmoothL1Loss",      "HuberLoss",     "CrossEntropyLoss",
                              "NLLLoss", "BCELoss", "BCEWithLogitsLoss", "SoftMarginLoss"};
  return names;
}

const Words& loss_functions() {
  static const Words names = {
      "mse_loss",        "l1_loss",  "smooth_l1_loss",       "huber_loss",
      "cross_entropy",   "nll_loss", "binary_cross_entropy", "binary_cross_entropy_with_logits",
      "soft_margin_loss"};
  return names;
}

std::string_view last_of(const std::string& qualified, std::string_view module) {
  const std::string_view name = qualified;
  return name.starts_with(module) ? name.substr(module.size()) : std::string_view();
}

std::string_view function_name(const std::string& qualified) {
  for (const std::string_view module : {"torch.nn.functional.", "torch."}) {
    const std::string_view name = last_of(qualified, module);
    if (!name.empty() && name.find('.') == std::string_view::npos) return name;
  }
  return "";
}

/// The operator between two expressions, where the tree does not have it.
bool is_operator(const Tree& tree, const Node* left, const Node* right, std::string_view text) {
  return std::string_view(tree.source()).substr(left->end, right->begin - left->end).find(text) !=
         std::string_view::npos;
}

/// Options of a loss with which it stays a mean over its elements. `weight` and `ignore_index` divide by
/// something else.
bool are_harmless(const Node* call) {
  static const Words names = {"label_smoothing", "beta", "delta", "pos_weight"};
  return std::all_of(call->list("keywords").begin(), call->list("keywords").end(), [](const Node* keyword) {
    return names.contains(keyword->text) ||
           (keyword->text == "reduction" && keyword->child("value")->text == "mean");
  });
}

/// The index of the part that an assignment takes for a name: `out, (state, cell) = lstm(x)` takes part 1
/// for both.
int part_of(const Value& value, std::string_view name) {
  const Node* statement = statement_of(value.node);
  if (value.part < 0 || !statement->is(Kind::assign)) return value.part;
  for (const Node* target : statement->list("targets")) {
    for (size_t i = 0; i < target->list("elts").size(); ++i) {
      const Nodes within = target->list("elts")[i]->list("elts");
      if (std::any_of(within.begin(), within.end(), [&](const Node* one) { return one->text == name; }))
        return static_cast<int>(i);
    }
  }
  return value.part;
}

/// Whether an expression holds a parameter of a module, `self.bias`.
bool is_parameter(const Names& names, const Node* expression) {
  const auto origins = names.origins(expression);
  return expression->is(Kind::attribute) && !origins.empty() &&
         std::all_of(origins.begin(), origins.end(), [&](const Node* one) {
           return one->is(Kind::call) && names.callee(one) == "torch.nn.Parameter";
         });
}

}  // namespace

bool is_setting(const Names& names, const Node* expression) {
  if (expression->literal == Literal::number) return true;
  if (expression->is(Kind::unary_op)) return is_setting(names, expression->child("operand"));
  if (expression->is(Kind::bin_op))
    return is_setting(names, expression->child("left")) && is_setting(names, expression->child("right"));
  if (expression->is(Kind::attribute)) {
    const auto origins = names.origins(expression->child("value"));
    const bool parsed = std::any_of(origins.begin(), origins.end(), [](const Node* one) {
      return one->is(Kind::call) && one->child("func")->is(Kind::attribute) &&
             one->child("func")->text == "parse_args";
    });
    if (parsed) return true;
  }
  if (!expression->is(Kind::name) && !expression->is(Kind::attribute)) return false;
  const auto origins = names.origins(expression);
  return !origins.empty() && std::all_of(origins.begin(), origins.end(), [](const Node* one) {
    return one->literal == Literal::number || one->literal == Literal::boolean;
  });
}

std::vector<Value> values_before(const Names& names, const Node* scope, const Node* name, bool& is_certain) {
  const Node* reader = statement_of(name);
  // Whether a statement always runs before the reader, in the same round of the loops around both.
  const auto precedes = [&](const Node* statement) {
    if (statement == reader || statement->begin >= reader->begin) return false;
    for (const Node* around = reader; around != nullptr && around != scope; around = around->parent)
      if (around->parent == statement->parent && around->role == statement->role) return true;
    return false;
  };
  std::vector<Value> all;
  const Node* last = nullptr;
  for (const Value& value : names.values(names.place(name))) {
    if (!is_inside(value.node, scope) || value.node == scope) continue;
    const Node* statement = statement_of(value.node);
    if (statement == scope && scope->is_function()) continue;  // a parameter's default
    all.push_back(value);
    if (!value.augmented && precedes(statement) && (last == nullptr || statement->begin > last->begin))
      last = statement;
  }
  is_certain = last != nullptr;
  // Of the others, those between, and those of an earlier round of a loop that does not contain the last one.
  std::erase_if(all, [&](const Value& value) {
    const Node* statement = statement_of(value.node);
    if (statement == last) return false;
    if (statement->begin < reader->begin) return last != nullptr && statement->begin < last->begin;
    for (const Node* around = reader; around != nullptr && around != scope; around = around->parent) {
      const bool loops = around->is(Kind::for_) || around->is(Kind::while_);
      if (loops && is_inside(statement, around) && (last == nullptr || !is_inside(last, around)))
        return false;
    }
    return true;
  });
  return all;
}

/// Visits all values that a variable may have, as far as the scope assigns them; false if one is not
/// understood, or if there is none.
template <typename Visit>
bool RowWise::follow(const Node* name, const Visit& visit) {
  bool is_certain = false;
  const std::vector<Value> values = values_before(names_, scope_, name, is_certain);
  const int place = names_.place(name);
  for (const Value& value : values) {
    followed_.insert(place);
    statements_.insert(statement_of(value.node));
    if (!visit(value)) return false;
  }
  if (values.empty() || is_certain) return !values.empty() || fail(name);
  // It may also have the value from before.
  const auto& all = names_.values(place);
  const bool is_inner =
      std::all_of(all.begin(), all.end(), [&](const Value& value) { return is_inside(value.node, scope_); });
  return is_inner || names_.is_parameter(place) || fail(name);
}

RowWise::Answer RowWise::rows_of_name(const Node* name) {
  Answer found;
  bool agree = true;
  const auto add = [&](const Answer& one) {
    agree = agree && one && (!found || *found == *one);
    found = one;
    return agree;
  };
  const bool known = follow(name, [&](const Value& value) {
    if (value.augmented && is_setting(names_, value.node)) return true;
    const int part = part_of(value, name->text);
    // x = relu(x): the value within is an earlier one of the same name.
    if (in_progress_.contains({value.node, part})) return true;
    return add(rows_of(value, name->text));
  });
  if (!known || !agree) return none(name);
  bool is_certain = false;
  values_before(names_, scope_, name, is_certain);
  const int place = names_.place(name);
  if (!is_certain && names_.is_parameter(place) && scope_->is_function()) {
    for (const Node* parameter : scope_->child("args")->list("args"))
      if (parameter->text == name->text && !add(input_(parameter))) return none(name);
  }
  return found ? found : none(name);
}

RowWise::Answer RowWise::rows_of(const Value& value, std::string_view name) {
  return value.element ? rows_of_iterated(value) : rows(value.node, part_of(value, name));
}

RowWise::Answer RowWise::rows(const Node* expression, int part) {
  if (const Answer input = input_(expression)) return input;
  const std::pair<const Node*, int> question = {expression, part};
  if (const auto known = known_.find(question); known != known_.end()) return known->second;
  if (!in_progress_.insert(question).second) return std::nullopt;
  const Answer answer = [&]() -> Answer {
    switch (expression->kind) {
      case Kind::name: return rows_of_name(expression);
      case Kind::tuple:
        return part >= 0 && static_cast<size_t>(part) < expression->list("elts").size()
                   ? rows(expression->list("elts")[static_cast<size_t>(part)])
                   : none(expression);
      case Kind::unary_op: return rows(expression->child("operand"));
      case Kind::bin_op: return rows_of_operation(expression);
      case Kind::subscript: return rows_of_subscript(expression);
      case Kind::call: return rows_of_call(expression, part);
      default: return none(expression);
    }
  }();
  in_progress_.erase(question);
  return known_[question] = answer;
}

bool RowWise::has_rows(const Node* expression, int part) {
  const Answer found = rows(expression, part);
  return found && found->axis == 0;
}

RowWise::Answer RowWise::rows_of_operation(const Node* operation) {
  const Node* left = operation->child("left");
  const Node* right = operation->child("right");
  const Node* op = operation->child("op");
  const bool known = op->is(Kind::add) || op->is(Kind::sub) || op->is(Kind::mult) || op->is(Kind::div) ||
                     is_operator(names_.tree(), left, right, "**");
  if (!known) {  // a @ b mixes rows, unless b is a parameter
    const bool projects = is_operator(names_.tree(), left, right, "@") && is_parameter(names_, right);
    return projects && has_rows(left) ? rows(left) : none(operation);
  }
  if (is_rowless(left)) return rows(right);
  if (is_rowless(right)) return rows(left);
  return common({rows(left), rows(right)}, operation);
}

/// Whether a tensor has nothing to do with the samples: a parameter, or numbers of positions and what
/// layers make of them.
bool RowWise::is_rowless(const Node* expression, int depth) {
  if (depth == 0) return false;
  if (is_setting(names_, expression) || is_parameter(names_, expression)) return true;
  if (expression->is(Kind::subscript)) return is_rowless(expression->child("value"), depth - 1);
  if (expression->is(Kind::bin_op))
    return is_rowless(expression->child("left"), depth - 1) &&
           is_rowless(expression->child("right"), depth - 1);
  if (expression->is(Kind::name)) {
    bool is_certain = false;
    const auto values = values_before(names_, scope_, expression, is_certain);
    return is_certain && std::all_of(values.begin(), values.end(), [&](const Value& value) {
             return value.part < 0 && !value.element && !value.augmented && is_rowless(value.node, depth - 1);
           });
  }
  if (!expression->is(Kind::call)) return false;
  const Node* function = expression->child("func");
  const Nodes given = expression->list("args");
  const std::string callee = names_.callee(expression);
  if (callee == "torch.arange" || callee == "torch.linspace") return true;
  if (callee.starts_with("math.") || callee.starts_with("numpy.sqrt"))
    return std::all_of(given.begin(), given.end(),
                       [&](const Node* one) { return is_rowless(one, depth - 1); });
  if (!callee.empty() || !function->is(Kind::attribute)) return false;
  const auto made = names_.origins(function);
  const bool is_layer = !made.empty() && std::all_of(made.begin(), made.end(), [&](const Node* one) {
    return one->is(Kind::call) && names_.callee(one).starts_with("torch.nn.");
  });
  if (is_layer) return given.size() == 1 && is_rowless(given[0], depth - 1);
  return (keepers().contains(function->text) || function->text == "unsqueeze") &&
         is_rowless(function->child("value"), depth - 1);
}

RowWise::Answer RowWise::common(const std::vector<Answer>& all, const Node* at) {
  if (all.empty()) return none(at);
  for (const Answer& one : all)
    if (!one || !(*one == *all.front())) return none(at);
  return all.front();
}

RowWise::Answer RowWise::rows_of_call(const Node* call, int part) {
  const Node* function = call->child("func");
  const Nodes given = call->list("args");
  const std::string qualified = names_.qualified(function);
  const std::string_view name = function_name(qualified);
  if (name == "zeros" || name == "ones") return rows_of_new(call);
  if (!name.empty() && !given.empty()) {
    if (functions().contains(name)) return rows(given[0]);
    const std::vector<const Node*> others(given.begin() + 1, given.end());
    const bool joins = name == "cat" || name == "concat" || name == "stack";
    const Answer found = joins ? rows_of_list(given[0]) : rows(given[0]);
    if (!found) return none(call);
    if (name == "bmm")
      return found->axis == 0 && others.size() == 1 && has_rows(others[0]) ? found : none(call);
    return shaped(name, *found, others, call);
  }
  const std::string_view method = function->is(Kind::attribute) && qualified.empty() ? function->text : "";
  if (keepers().contains(method) || functions().contains(method)) return rows(function->child("value"));
  static const Words shapes = {"view",    "reshape",   "squeeze", "unsqueeze", "flatten",
                               "permute", "transpose", "mean",    "sum"};
  if (shapes.contains(method)) {
    const Answer found = rows(function->child("value"));
    return found ? shaped(method, *found, {given.begin(), given.end()}, call) : none(call);
  }
  return rows_of_layers(call, part);
}

/// What the model, or a layer, computes.
RowWise::Answer RowWise::rows_of_layers(const Node* call, int part) {
  if (call->list("args").empty()) return none(call);
  RowsOfArguments rows_of_arguments;
  for (const Node* given : call->list("args")) {
    const bool is_rowless = given->literal == Literal::null || is_setting(names_, given);
    if (given->is(Kind::tuple) && has_axes_) {  // the state of an LSTM
      std::vector<Answer> parts;
      for (const Node* one : given->list("elts"))
        if (!in_progress_.contains({one, -1})) parts.push_back(rows(one));  // h, c = cell(x, (h, c))
      rows_of_arguments.push_back(common(parts, given));
    } else {
      rows_of_arguments.push_back(is_rowless ? std::nullopt : rows(given));
    }
    if (!is_rowless && !rows_of_arguments.back() && has_axes_) return none(given);
  }
  const Answer found = apply_(call, rows_of_arguments, part);
  return found ? found : none(call);
}

/// Whether a value has nothing to do with the samples: a setting, or a norm of the parameters.
bool RowWise::is_free(const Node* expression) {
  if (is_setting(names_, expression)) return true;
  if (expression->is(Kind::bin_op))
    return is_free(expression->child("left")) && is_free(expression->child("right"));
  if (!expression->is(Kind::call) || names_.qualified(expression->child("func")) != "sum") return false;
  // sum(p.pow(2).sum() for p in model.parameters())
  const Nodes given = expression->list("args");
  const Node* over =
      given.size() == 1 && given[0]->is(Kind::generator) ? given[0]->list("generators")[0] : nullptr;
  const Node* iterable = over == nullptr ? nullptr : over->child("iter");
  const bool of_parameters = iterable != nullptr && iterable->is(Kind::call) &&
                             iterable->child("func")->is(Kind::attribute) &&
                             iterable->child("func")->text == "parameters";
  if (!of_parameters) return false;
  bool known = true;
  walk(*given[0]->child("elt"), [&](const Node& node) {
    known = known && (!node.is(Kind::name) || node.text == over->child("target")->text ||
                      !names_.qualified(&node).empty() || is_setting(names_, &node));
    return known;
  });
  return known;
}

/// The prediction and the target of a loss.
bool RowWise::compares_rows(const Node* call) {
  const Nodes given = call->list("args");
  if (given.size() != 2) return fail(call);
  return has_rows(given[0]) && has_rows(given[1]);
}

bool RowWise::mean_of_call(const Node* call) {
  const Node* function = call->child("func");
  const std::string qualified = names_.qualified(function);
  const Nodes given = call->list("args");
  const bool is_reduction = call->list("keywords").empty();
  if (qualified == "torch.mean" && given.size() == 1 && is_reduction) return rows(given[0]).has_value();
  if (qualified.empty() && function->is(Kind::attribute) && function->text == "mean" && given.empty() &&
      is_reduction)
    return rows(function->child("value")).has_value();
  if (loss_functions().contains(last_of(qualified, "torch.nn.functional.")))
    return compares_rows(call) && (are_harmless(call) || fail(call));
  const auto origins = names_.origins(function);
  const bool is_loss = !origins.empty() && std::all_of(origins.begin(), origins.end(), [&](const Node* made) {
    return made->is(Kind::call) && losses().contains(last_of(names_.callee(made), "torch.nn."));
  });
  if (!is_loss || !is_reduction) return fail(call);
  const bool is_mean = std::all_of(origins.begin(), origins.end(), [&](const Node* made) {
    return made->list("args").empty() && are_harmless(made);
  });
  return compares_rows(call) && (is_mean || fail(call));
}

bool RowWise::is_mean(const Node* expression) {
  switch (expression->kind) {
    case Kind::name:
      means_.insert(names_.place(expression));
      return follow(expression, [&](const Value& value) {
        if (value.node->literal == Literal::null) return true;  // loss = None, where forward() has no targets
        if (!in_progress_.emplace(value.node, kMean).second) return true;  // loss = loss + …, in a loop
        const bool adds = value.augmented && (statement_of(value.node)->child("op")->is(Kind::add) ||
                                              statement_of(value.node)->child("op")->is(Kind::sub));
        const bool of_model =
            mean_ && value.node->is(Kind::call) && value.part >= 0 && mean_(value.node, value.part);
        const bool holds = of_model || (value.part < 0 && !value.element && (adds || !value.augmented) &&
                                        ((adds && is_free(value.node)) || is_mean(value.node)));
        in_progress_.erase({value.node, kMean});
        return holds || fail(expression);
      });
    case Kind::call: return mean_of_call(expression) || (mean_ && mean_(expression, -1));
    case Kind::unary_op: return is_mean(expression->child("operand"));
    case Kind::bin_op: {
      const Node* left = expression->child("left");
      const Node* right = expression->child("right");
      const Node* op = expression->child("op");
      if (op->is(Kind::mult) && is_free(left)) return is_mean(right);
      if ((op->is(Kind::mult) || op->is(Kind::div)) && is_free(right)) return is_mean(left);
      if (!op->is(Kind::add) && !op->is(Kind::sub)) return fail(expression);
      if (is_free(right)) return is_mean(left);
      return (is_free(left) || is_mean(left)) && is_mean(right);
    }
    default: return fail(expression);
  }
}

}  // namespace telar::weave
