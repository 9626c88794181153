// Text in columns: a sequence that is cut into stretches of the same length, which are read side by side.
#include "telar/weave/torch/text_columns.h"

#include <algorithm>
#include <array>

#include "telar/weave/torch/row_wise.h"

namespace telar::weave {

namespace {

bool is_all(const Tree& tree, const Node* slice) { return tree.text(*slice) == ":"; }

/// `begin:end`
bool is_slice(const Node* node) { return node->is(Kind::other) && !node->fields.empty(); }

std::optional<Columns> arranged(const Names& names, const Node* expression, int depth);
std::optional<Columns> arranged_by(const Names& names, const Node* function, const Node* call, int depth);

std::optional<Columns> turned(const Names& names, const Node* expression, int depth) {
  std::optional<Columns> found = arranged(names, expression, depth - 1);
  if (found) found->dimension = 1 - found->dimension;
  return found;
}

/// The value of a variable of a function that is assigned last before a statement.
const Node* last_value(const Names& names, const Node* name) {
  const Node* found = nullptr;
  for (const Value& value : names.values(names.place(name))) {
    const bool earlier = value.node->begin < statement_begin(*statement_of(name)) ||
                         (statement_of(value.node) != statement_of(name) && value.node->end < name->begin);
    if (!earlier || function_of(value.node) != function_of(name) || value.part >= 0) continue;
    if (found == nullptr || value.node->begin > found->begin) found = value.node;
  }
  return found;
}

/// `batchify(text, columns)`: the number of columns is an argument.
std::optional<Columns> arranged_by(const Names& names, const Node* function, const Node* call, int depth) {
  std::optional<Columns> found;
  int returns = 0;
  walk(*function, [&](const Node& node) {
    if (!node.is(Kind::return_)) return true;
    ++returns;
    found = arranged(names, node.child("value"), depth);
    return false;
  });
  if (returns != 1 || !found || !found->size->is(Kind::name)) return std::nullopt;
  const Nodes parameters = function->child("args")->list("args");
  const int skipped = class_of(function) != nullptr ? 1 : 0;
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (parameters[i]->text != found->size->text) continue;
    const Node* given = names.argument(call, std::string(parameters[i]->text), static_cast<int>(i) - skipped);
    if (given == nullptr) return std::nullopt;
    return Columns{found->dimension, given};
  }
  return std::nullopt;
}

/// Whether an expression arranges values in columns: `x.view(columns, -1)`, perhaps transposed.
std::optional<Columns> arranged(const Names& names, const Node* expression, int depth) {
  if (depth == 0 || expression == nullptr) return std::nullopt;
  if (expression->is(Kind::attribute) && expression->text == "T")
    return turned(names, expression->child("value"), depth);
  if (expression->is(Kind::name)) return arranged(names, last_value(names, expression), depth - 1);
  if (!expression->is(Kind::call)) return std::nullopt;
  const Node* function = expression->child("func");
  const Nodes given = expression->list("args");
  if (const Node* own = names.called_function(expression))
    return arranged_by(names, own, expression, depth - 1);
  if (!function->is(Kind::attribute)) return std::nullopt;
  const Node* of = function->child("value");
  static constexpr std::array<std::string_view, 6> kKeep = {"contiguous", "to",    "cuda",
                                                            "long",       "clone", "cpu"};
  if (std::find(kKeep.begin(), kKeep.end(), function->text) != kKeep.end())
    return arranged(names, of, depth - 1);
  if (function->text == "t" || function->text == "transpose" || function->text == "permute")
    return turned(names, of, depth);
  const bool shapes = function->text == "view" || function->text == "reshape";
  if (shapes && given.size() == 2 && names.tree().text(*given[1]) == "-1") return Columns{0, given[0]};
  return std::nullopt;
}

}  // namespace

std::optional<Columns> columns_of(const Names& names, const Node* name) {
  if (names.is_parameter(names.place(name))) return std::nullopt;
  const auto& values = names.values(names.place(name));
  if (values.size() != 1 || values[0].part >= 0 || values[0].element || values[0].augmented)
    return std::nullopt;
  return arranged(names, values[0].node, 6);
}

bool takes_rows(const Names& names, const Node* slice, int dimension) {
  if (dimension == 1) return is_slice(slice);
  const Nodes parts = slice->is(Kind::tuple) ? slice->list("elts") : Nodes{};
  return parts.size() == 2 && is_all(names.tree(), parts[0]) && is_slice(parts[1]);
}

bool returns_rows(const Names& names, const Node* function, std::string_view parameter, int dimension) {
  const auto input = [&](const Node* one) -> std::optional<Rows> {
    const bool takes = one->is(Kind::subscript) && one->child("value")->is(Kind::name) &&
                       one->child("value")->text == parameter && !assigns(function, parameter) &&
                       takes_rows(names, one->child("slice"), dimension);
    return takes ? std::optional<Rows>(Rows()) : std::nullopt;
  };
  RowWise rows(names, function, false, input,
               [](const Node*, const RowsOfArguments&, int) { return std::nullopt; });
  bool found = false;
  bool holds = true;
  walk(*function, [&](const Node& node) {
    if (!node.is(Kind::return_)) return true;
    const Node* value = node.child("value");
    found = true;
    if (value == nullptr || !value->is(Kind::tuple)) return holds = false;
    for (const Node* part : value->list("elts")) holds = holds && rows.has_rows(part);
    return false;
  });
  return found && holds;
}

}  // namespace telar::weave
