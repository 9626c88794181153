// Which computations treat each sample by itself: only then the samples of a tensor can be divided.
#include "telar/weave/torch/row_wise.h"

#include <algorithm>
#include <unordered_set>

namespace telar::weave {

namespace {

using Words = std::unordered_set<std::string_view>;

/// Layers of torch.nn that treat each row of their input by itself. (Batch norm in training is the exception
/// that every data-parallel training has.)
const Words& layers() {
  static const Words names = {"Linear",
                              "Bilinear",
                              "Identity",
                              "Dropout",
                              "Dropout1d",
                              "Dropout2d",
                              "AlphaDropout",
                              "BatchNorm1d",
                              "BatchNorm2d",
                              "LayerNorm",
                              "Embedding",
                              "Conv1d",
                              "Conv2d",
                              "Conv3d",
                              "ConvTranspose2d",
                              "MaxPool1d",
                              "MaxPool2d",
                              "AvgPool1d",
                              "AvgPool2d",
                              "AdaptiveAvgPool1d",
                              "AdaptiveAvgPool2d",
                              "AdaptiveMaxPool2d",
                              "ReLU",
                              "ReLU6",
                              "LeakyReLU",
                              "PReLU",
                              "RReLU",
                              "ELU",
                              "SELU",
                              "CELU",
                              "GELU",
                              "SiLU",
                              "Mish",
                              "Sigmoid",
                              "LogSigmoid",
                              "Tanh",
                              "Hardtanh",
                              "Softplus",
                              "Softsign",
                              "Hardswish"};
  return names;
}

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

bool is_number(const Node* node, std::string_view text) {
  return node != nullptr && node->literal == Literal::number && node->text == text;
}

/// Whether the operator between two expressions is `**`.
bool is_power(const Tree& tree, const Node* left, const Node* right) {
  return std::string_view(tree.source()).substr(left->end, right->begin - left->end).find("**") !=
         std::string_view::npos;
}

bool is_minus_one(const Names& names, const Node* node) {
  return node != nullptr && names.tree().text(*node) == "-1";
}

/// `x.size(0)`, `x.shape[0]`, `len(x)`
bool counts_rows(const Names& names, const Node* node) {
  if (node->is(Kind::subscript))
    return node->child("value")->is(Kind::attribute) && node->child("value")->text == "shape" &&
           is_number(node->child("slice"), "0");
  if (!node->is(Kind::call) || node->list("args").size() != 1) return false;
  const Node* function = node->child("func");
  return names.qualified(function) == "len" ||
         (function->is(Kind::attribute) && function->text == "size" && is_number(node->list("args")[0], "0"));
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

/// Whether a dimension that a call is given is not that of the rows.
bool is_not_of_rows(const Names& names, const Node* call, int position) {
  const Node* dim = names.argument(call, "dim", position);
  return dim != nullptr && (is_number(dim, "1") || is_number(dim, "2") || is_minus_one(names, dim));
}

bool treats_rows_alone_in(const Names& names, const Node* made, int depth);

/// Whether forward() of a class of the program only applies such layers to its arguments.
bool has_forward_by_rows(const Names& names, const Node* owner, int depth) {
  const Node* forward = names.method(owner, "forward");
  if (forward == nullptr || depth == 0) return false;
  const Nodes parameters = forward->child("args")->list("args");
  const auto is_input = [&](const Node* expression) {
    return expression->is(Kind::name) && expression->text != "self" &&
           std::any_of(parameters.begin(), parameters.end(),
                       [&](const Node* one) { return one->text == expression->text; }) &&
           !assigns(forward, expression->text);
  };
  const auto count_inputs = [&](const Node* call) {
    const auto origins = names.origins(call->child("func"));
    const bool alone = !origins.empty() && std::all_of(origins.begin(), origins.end(), [&](const Node* made) {
      return treats_rows_alone_in(names, made, depth - 1);
    });
    return alone ? call->list("args").size() : 0;
  };
  RowWise rows(names, forward, is_input, count_inputs);
  bool returns = false;
  bool holds = true;
  walk(*forward, [&](const Node& node) {
    if (&node != forward && (node.is_function() || node.is(Kind::lambda))) return holds = false;
    const bool known = node.is(Kind::return_) || node.is(Kind::assign) || node.is(Kind::expr);
    if (node.is_statement() && &node != forward && !known) holds = false;
    if (!node.is(Kind::return_)) return holds;
    returns = true;
    holds = holds && node.child("value") != nullptr && rows.has_rows(node.child("value"));
    return holds;
  });
  return holds && returns;
}

bool is_layer_of_torch(const Names& names, const Node* made) {
  const std::string_view name = last_of(names.callee(made), "torch.nn.");
  if (layers().contains(name)) return true;
  if (name == "Flatten") return made->list("args").empty() && made->list("keywords").empty();
  // No recurrent layers: if they are given a single sequence, its rows are not samples.
  return (name == "Softmax" || name == "LogSoftmax") && is_not_of_rows(names, made, 0);
}

/// Whether what a call creates treats each row of its input by itself.
bool treats_rows_alone_in(const Names& names, const Node* made, int depth) {
  if (!made->is(Kind::call) || depth == 0) return false;
  if (is_layer_of_torch(names, made)) return true;
  if (last_of(names.callee(made), "torch.nn.") == "Sequential") {
    const Nodes parts = made->list("args");
    return !parts.empty() && std::all_of(parts.begin(), parts.end(), [&](const Node* part) {
      const auto origins = names.origins(part);
      return !part->is(Kind::starred) && !origins.empty() &&
             std::all_of(origins.begin(), origins.end(),
                         [&](const Node* one) { return treats_rows_alone_in(names, one, depth - 1); });
    });
  }
  const Node* owner = names.definition(made->child("func"));
  return owner != nullptr && owner->is(Kind::class_def) && names.derives(owner, {"torch.nn.Module"}) &&
         has_forward_by_rows(names, owner, depth);
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

bool treats_rows_alone(const Names& names, const Node* call) {
  const auto origins = names.origins(call->child("func"));
  return !origins.empty() && std::all_of(origins.begin(), origins.end(), [&](const Node* made) {
    return treats_rows_alone_in(names, made, 6);
  });
}

/// Whether a condition holds for all values that a name is assigned in the scope.
bool RowWise::follow(const Node* name, const std::function<bool(const Value&)>& holds) {
  bool assigned = false;
  for (const Value& value : names_.values(names_.place(name))) {
    if (!is_inside(value.node, scope_)) continue;
    assigned = true;
    const Node* statement = statement_of(value.node);
    if (value.augmented || value.element || !statement->is(Kind::assign)) return fail(name);
    followed_.insert(names_.place(name));
    statements_.insert(statement);
    // x = relu(x): the value within is an earlier one of the same name.
    if (!seen_.emplace(value.node, value.part).second) continue;
    if (!holds(value)) return false;
  }
  return assigned ? true : fail(name);
}

bool RowWise::has_rows(const Node* expression, int part) {
  if (is_input_(expression)) return true;
  switch (expression->kind) {
    case Kind::name:
      return follow(expression, [&](const Value& value) { return has_rows(value.node, value.part); });
    case Kind::tuple:
      return part >= 0 && static_cast<size_t>(part) < expression->list("elts").size()
                 ? has_rows(expression->list("elts")[static_cast<size_t>(part)])
                 : fail(expression);
    case Kind::unary_op: return has_rows(expression->child("operand"));
    case Kind::bin_op: {
      const Node* left = expression->child("left");
      const Node* right = expression->child("right");
      const Node* op = expression->child("op");
      const bool known = op->is(Kind::add) || op->is(Kind::sub) || op->is(Kind::mult) || op->is(Kind::div) ||
                         is_power(names_.tree(), left, right);
      if (!known) return fail(expression);  // a @ b mixes rows
      if (is_setting(names_, left)) return has_rows(right);
      if (is_setting(names_, right)) return has_rows(left);
      return has_rows(left) && has_rows(right);
    }
    case Kind::subscript: {  // x[:, -1]
      const Node* slice = expression->child("slice");
      const bool all = slice->is(Kind::tuple) && names_.tree().text(*slice->list("elts")[0]) == ":";
      return all ? has_rows(expression->child("value")) : fail(expression);
    }
    case Kind::call: return rows_of_call(expression, part);
    default: return fail(expression);
  }
}

bool RowWise::rows_of_call(const Node* call, int part) {
  const Node* function = call->child("func");
  const Nodes given = call->list("args");
  const std::string qualified = names_.qualified(function);
  const std::string_view name = function_name(qualified);
  if (name == "cat" && !given.empty() && is_not_of_rows(names_, call, 1)) {
    const Nodes parts = given[0]->list("elts");
    return !parts.empty() &&
           std::all_of(parts.begin(), parts.end(), [&](const Node* one) { return has_rows(one); });
  }
  if (!given.empty() && (functions().contains(name) ||
                         ((name == "softmax" || name == "log_softmax") && is_not_of_rows(names_, call, 1)) ||
                         (name == "flatten" && given.size() == 2 && is_number(given[1], "1"))))
    return has_rows(given[0]);
  const std::string_view shape = function->is(Kind::attribute) && qualified.empty() ? function->text : "";
  if (shape == "view" || shape == "reshape") {
    const bool keeps = !given.empty() && (is_minus_one(names_, given[0]) || counts_rows(names_, given[0]));
    return keeps ? has_rows(function->child("value")) : fail(call);
  }
  if (shape == "squeeze" || shape == "unsqueeze") {
    const bool keeps =
        given.empty() ? shape == "squeeze" : is_number(given[0], "1") || is_minus_one(names_, given[0]);
    return keeps ? has_rows(function->child("value")) : fail(call);
  }
  if (shape == "flatten") {
    const bool keeps = given.empty() || is_number(given[0], "1");
    return keeps ? has_rows(function->child("value")) : fail(call);
  }
  if (!shape.empty() && (keepers().contains(shape) || functions().contains(shape)))
    return has_rows(function->child("value"));
  if (given.empty() || !call->list("keywords").empty() || part > 0) return fail(call);
  if (!has_rows(given[0])) return false;
  const size_t inputs = count_inputs_(call);
  if (inputs == 0) return fail(call);
  return std::all_of(given.begin(), given.begin() + static_cast<std::ptrdiff_t>(inputs),
                     [&](const Node* one) { return has_rows(one); });
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
  if (qualified == "torch.mean" && given.size() == 1 && is_reduction) return has_rows(given[0]);
  if (qualified.empty() && function->is(Kind::attribute) && function->text == "mean" && given.empty() &&
      is_reduction)
    return has_rows(function->child("value"));
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
      return follow(expression, [&](const Value& value) {
        return value.part < 0 ? is_mean(value.node) : fail(value.node);
      });
    case Kind::call: return mean_of_call(expression);
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
