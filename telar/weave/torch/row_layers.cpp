// Which layers treat each sample by itself.
#include <algorithm>
#include <unordered_set>

#include "telar/weave/torch/row_wise.h"

namespace telar::weave {

namespace {

using Words = std::unordered_set<std::string_view>;

/// Layers of torch.nn that treat each row of their input by itself, along any axis but the last.
const Words& layers_of_any_axis() {
  static const Words names = {"Linear", "Identity",  "Dropout",  "AlphaDropout", "LayerNorm", "Embedding",
                              "ReLU",   "ReLU6",     "ELU",      "SELU",         "CELU",      "GELU",
                              "SiLU",   "Mish",      "Sigmoid",  "LogSigmoid",   "Tanh",      "Hardtanh",
                              "RReLU",  "LeakyReLU", "Softplus", "Softsign",     "Hardswish"};
  return names;
}

/// Those that do so along the first axis. (Batch norm in training is the exception that every data-parallel
/// training has.)
const Words& layers_of_first_axis() {
  static const Words names = {"Bilinear",
                              "Dropout1d",
                              "Dropout2d",
                              "BatchNorm1d",
                              "BatchNorm2d",
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
                              "PReLU"};
  return names;
}

std::string_view layer_name(const Names& names, const Node* made) {
  const std::string_view name = names.callee(made);
  return name.starts_with("torch.nn.") ? name.substr(9) : std::string_view();
}

/// The calls that create what a call applies: also the elements of a ModuleList.
std::vector<const Node*> layers_of(const Names& names, const Node* applied) {
  const auto elements = [&](const Node* container) {
    std::vector<const Node*> found;
    for (const Node* made : names.origins(container)) {
      if (!made->is(Kind::call) || layer_name(names, made) != "ModuleList" || made->list("args").size() != 1)
        return std::vector<const Node*>();
      for (const Node* display : names.origins(made->list("args")[0])) {
        const Nodes all = display->list("elts");
        std::vector<const Node*> parts(all.begin(), all.end());
        if (display->is(Kind::list_comp)) parts = {display->child("elt")};
        for (const Node* part : parts) {
          const auto origins = names.origins(part);
          found.insert(found.end(), origins.begin(), origins.end());
        }
      }
    }
    return found;
  };
  if (applied->is(Kind::subscript)) return elements(applied->child("value"));
  const auto& values = names.values(names.place(applied));
  if (applied->is(Kind::name) && values.size() == 1 && values[0].element) {
    const Node* over = values[0].node;  // for layer in self.layers, for i, layer in enumerate(self.layers)
    const bool counted = over->is(Kind::call) && names.callee(over) == "enumerate" && values[0].part == 1;
    return counted              ? elements(over->list("args")[0])
           : values[0].part < 0 ? elements(over)
                                : std::vector<const Node*>();
  }
  return names.origins(applied);
}

/// Whether the first part of what a call returns has three axes, as the scope indexes it.
bool has_three_axes(const Names& names, const Node* call) {
  const Node* statement = statement_of(call);
  const Nodes targets =
      statement->is(Kind::assign) && statement->child("value") == call ? statement->list("targets") : Nodes{};
  const Nodes parts = targets.size() == 1 ? targets[0]->list("elts") : Nodes{};
  const int place = parts.empty() ? -1 : names.place(parts[0]);
  if (place < 0) return false;
  const auto& mentions = names.mentions(place);
  return std::any_of(mentions.begin(), mentions.end(), [&](const Node* mention) {
    const Node* around = mention->parent;
    const bool indexed = around->is(Kind::subscript) && mention->role == "value" &&
                         around->child("slice")->list("elts").size() == 3;
    const bool permuted = around->is(Kind::attribute) && around->text == "permute" &&
                          around->parent->is(Kind::call) && around->parent->list("args").size() == 3;
    const bool sized = around->is(Kind::attribute) && around->text == "size" &&
                       around->parent->is(Kind::call) && around->parent->list("args").size() == 1 &&
                       constant_of(names, around->parent->list("args")[0]) == 2;
    return indexed || permuted || sized;
  });
}

/// A recurrent layer sees a tensor of two axes as one sequence, whose rows are no samples. Its state of
/// three axes, or samples along the second axis, show that it has batches.
std::optional<Rows> apply_recurrent(const Names& names, const Node* made, const Node* call,
                                    const RowsOfArguments& given, int part) {
  const Node* first = names.argument(made, "batch_first", -1);
  if (made->list("args").size() > 3 || (first != nullptr && first->literal != Literal::boolean))
    return std::nullopt;
  const bool has_state = given.size() > 1 && given[1].has_value();
  const int axis = first != nullptr && first->text == "True" ? 0 : 1;
  if (given.size() > 2 || given[0]->axis != axis || (has_state && given[1]->axis != 1)) return std::nullopt;
  if (axis == 0 && given[0]->dims != 3 && !has_state && !has_three_axes(names, call)) return std::nullopt;
  if (part < 0) return std::nullopt;
  return Rows{part == 0 ? axis : 1, 3};
}

std::optional<Rows> apply_forward(const Names& names, const Node* owner, const RowsOfArguments& given,
                                  int part, int depth);

std::optional<Rows> apply_one(const Names& names, const Node* made, const Node* call,
                              const RowsOfArguments& given, int part, int depth) {
  if (!made->is(Kind::call) || depth == 0) return std::nullopt;
  const Node* owner = names.definition(made->child("func"));
  if (owner != nullptr && owner->is(Kind::class_def))
    return names.derives(owner, {"torch.nn.Module"}) ? apply_forward(names, owner, given, part, depth)
                                                     : std::nullopt;
  const std::string_view name = layer_name(names, made);
  if (!given[0]) return std::nullopt;
  const Rows rows = *given[0];
  if (name == "LSTM" || name == "GRU" || name == "RNN")
    return apply_recurrent(names, made, call, given, part);
  if (name == "LSTMCell" || name == "GRUCell" || name == "RNNCell") {
    const bool fits =
        rows.axis == 0 && given.size() <= 2 && (given.size() < 2 || !given[1] || given[1]->axis == 0);
    return fits && (name == "LSTMCell") == (part >= 0) ? std::optional<Rows>({0, 2}) : std::nullopt;
  }
  const bool same =
      std::all_of(given.begin(), given.end(), [&](const auto& one) { return one && *one == rows; });
  if (part >= 0 || !same) return std::nullopt;
  if (name == "Embedding") return Rows{rows.axis, rows.dims == 0 ? 0 : rows.dims + 1};
  if (layers_of_any_axis().contains(name) || (rows.axis == 0 && layers_of_first_axis().contains(name)))
    return rows;
  if (name == "Flatten")
    return rows.axis == 0 && made->list("args").empty() && made->list("keywords").empty()
               ? std::optional<Rows>({0, 2})
               : std::nullopt;
  if (name == "Softmax" || name == "LogSoftmax") {
    const std::optional<int> dim = constant_of(names, names.argument(made, "dim", 0));
    const bool other = dim && *dim != rows.axis && (*dim > 0 || rows.axis == 0);
    return other ? std::optional<Rows>(rows) : std::nullopt;
  }
  if (name != "Sequential" || made->list("args").empty()) return std::nullopt;
  RowsOfArguments now = given;
  for (const Node* one : made->list("args")) {
    const auto origins = one->is(Kind::starred) ? std::vector<const Node*>() : names.origins(one);
    std::optional<Rows> after;
    for (const Node* origin : origins) after = apply_one(names, origin, call, now, -1, depth - 1);
    if (origins.size() != 1 || !after) return std::nullopt;
    now = {after};
  }
  return now[0];
}

/// Whether a condition of forward() is the same for all samples: it asks for settings, or whether an
/// argument is given.
bool is_common(const Names& names, const Node* forward, const Node* test) {
  if (test->is(Kind::compare) && test->list("comparators")[0]->literal == Literal::null) return true;
  bool common = true;
  walk(*test, [&](const Node& node) {
    if (node.is(Kind::call)) common = false;
    if (node.is(Kind::name) && node.text != "self") {
      const int place = names.place(&node);
      common = common && (place < 0 || names.scope(place) != forward || is_setting(names, &node));
    }
    return common;
  });
  return common;
}

/// Whether a statement of forward() only computes new values: it changes no tensor in place.
bool is_plain(const Names& names, const Node* forward, const Node& node) {
  if (node.is(Kind::if_)) return is_common(names, forward, node.child("test"));
  if (node.is(Kind::for_) || node.is(Kind::pass) || node.is(Kind::return_)) return true;
  if (node.is(Kind::aug_assign)) return node.child("target")->is(Kind::name);
  if (node.is(Kind::assign)) {
    const Nodes targets = node.list("targets");
    return std::none_of(targets.begin(), targets.end(),
                        [](const Node* one) { return one->is(Kind::subscript); });
  }
  if (!node.is(Kind::expr)) return false;
  const Node* value = node.child("value");
  if (value->is(Kind::constant)) return true;
  return value->is(Kind::call) &&
         (names.callee(value) == "print" ||
          (value->child("func")->is(Kind::attribute) && value->child("func")->text == "append"));
}

/// What forward() of a class of the program computes.
std::optional<Rows> apply_forward(const Names& names, const Node* owner, const RowsOfArguments& given,
                                  int part, int depth) {
  const Node* forward = names.method(owner, "forward");
  if (forward == nullptr) return std::nullopt;
  const Nodes parameters = forward->child("args")->list("args");
  const auto of_parameter = [&](std::string_view name) -> std::optional<Rows> {
    for (size_t i = 1; i < parameters.size() && i <= given.size(); ++i)
      if (parameters[i]->text == name) return given[i - 1];
    return std::nullopt;
  };
  const auto input = [&](const Node* one) -> std::optional<Rows> {
    if (one->is(Kind::arg)) return of_parameter(one->text);
    if (!one->is(Kind::name)) return std::nullopt;
    bool is_certain = false;
    return values_before(names, forward, one, is_certain).empty() ? of_parameter(one->text) : std::nullopt;
  };
  const auto apply = [&](const Node* call, const RowsOfArguments& inner, int inner_part) {
    return apply_layers(names, call, inner, inner_part, depth - 1);
  };
  RowWise rows(names, forward, true, input, apply);
  std::optional<Rows> found;
  bool holds = true;
  walk(*forward, [&](const Node& node) {
    if (!holds || &node == forward) return holds;
    if (node.is_function() || node.is(Kind::lambda)) return holds = false;
    if (node.is_statement() && !is_plain(names, forward, node)) return holds = false;
    if (!node.is(Kind::return_)) return true;
    const std::optional<Rows> one =
        node.child("value") == nullptr ? std::nullopt : rows.rows(node.child("value"), part);
    holds = one && (!found || *found == *one);
    found = one;
    return holds;
  });
  return holds ? found : std::nullopt;
}

}  // namespace

bool may_return(const Names& names, const Node* call, int part) {
  static const Words of_tuples = {"LSTM", "GRU", "RNN", "LSTMCell", "MultiheadAttention"};
  const auto origins = layers_of(names, call->child("func"));
  return std::all_of(origins.begin(), origins.end(), [&](const Node* made) {
    if (!made->is(Kind::call)) return false;
    const Node* owner = names.definition(made->child("func"));
    const Node* forward =
        owner != nullptr && owner->is(Kind::class_def) ? names.method(owner, "forward") : nullptr;
    bool has_tuple = of_tuples.contains(layer_name(names, made));
    if (forward == nullptr) return !names.callee(made).starts_with("torch.nn.") || has_tuple == (part >= 0);
    walk(*forward, [&](const Node& node) {
      has_tuple = has_tuple || (node.is(Kind::return_) && node.child("value") != nullptr &&
                                node.child("value")->is(Kind::tuple));
      return true;
    });
    return has_tuple == (part >= 0);
  });
}

bool returns_mean(const Names& names, const Node* owner, int part) {
  const Node* forward = names.method(owner, "forward");
  if (forward == nullptr) return false;
  const auto input = [&](const Node* one) -> std::optional<Rows> {
    if (one->is(Kind::arg)) return one->text == "self" ? std::nullopt : std::optional<Rows>(Rows());
    bool is_certain = false;
    const bool is_own = one->is(Kind::name) && names.is_parameter(names.place(one)) && one->text != "self" &&
                        values_before(names, forward, one, is_certain).empty();
    return is_own ? std::optional<Rows>(Rows()) : std::nullopt;
  };
  const auto apply = [&](const Node* call, const RowsOfArguments& given, int taken) {
    return may_return(names, call, taken) ? given[0] : std::nullopt;
  };
  RowWise rows(names, forward, false, input, apply);
  bool found = false;
  bool holds = true;
  walk(*forward, [&](const Node& node) {
    if (!holds || (&node != forward && node.is_function())) return false;
    if (!node.is(Kind::return_)) return true;
    const Node* value = node.child("value");
    if (value != nullptr && part >= 0 && static_cast<size_t>(part) < value->list("elts").size())
      value = value->list("elts")[static_cast<size_t>(part)];
    found = true;
    holds = value != nullptr && (value->literal == Literal::null || rows.is_mean(value));
    return holds;
  });
  return found && holds;
}

std::optional<Rows> apply_layers(const Names& names, const Node* call, const RowsOfArguments& given, int part,
                                 int depth) {
  std::optional<Rows> found;
  if (!call->list("keywords").empty()) return std::nullopt;
  for (const Node* made : depth == 0 ? std::vector<const Node*>() : layers_of(names, call->child("func"))) {
    const std::optional<Rows> one = apply_one(names, made, call, given, part, depth);
    if (!one || (found && !(*found == *one))) return std::nullopt;
    found = one;
  }
  return found;
}

}  // namespace telar::weave
