// Along which axis the samples of a tensor are, after it was transposed, indexed, joined or given another
// shape.
#include <algorithm>

#include "telar/weave/torch/row_wise.h"

namespace telar::weave {

namespace {

bool is_all(const Tree& tree, const Node* slice) { return tree.text(*slice) == ":"; }

/// `begin:end`
bool is_slice(const Tree& tree, const Node* node) {
  return node->is(Kind::other) && tree.text(*node).find(':') != std::string_view::npos;
}

/// `shape(2, 3)`, `shape([2, 3])` and `shape((2, 3))`: the sizes.
std::vector<const Node*> sizes_of(const std::vector<const Node*>& given) {
  if (given.size() != 1 || (!given[0]->is(Kind::tuple) && !given[0]->is(Kind::list))) return given;
  const Nodes elements = given[0]->list("elts");
  return {elements.begin(), elements.end()};
}

/// Whether a variable counts the rounds of a loop: `for i in range(n)`.
bool counts_rounds(const Names& names, const Node* name) {
  const auto& values = names.values(names.place(name));
  return name->is(Kind::name) && !values.empty() &&
         std::all_of(values.begin(), values.end(), [&](const Value& value) {
           const bool counted = value.element && value.node->is(Kind::call);
           const std::string callee = counted ? names.callee(value.node) : "";
           return (callee == "range" && value.part < 0) || (callee == "enumerate" && value.part == 0);
         });
}

bool is_index(const Names& names, const Node* node) {
  return constant_of(names, node).has_value() || counts_rounds(names, node);
}

/// The axis of samples when one at `dim` goes away; -1: it is their own, or unknown.
int axis_without(const Rows& rows, int dim) {
  if (dim < 0) return rows.dims > rows.axis + 1 && dim == -1 ? rows.axis : -1;
  if (dim == rows.axis) return -1;
  return dim < rows.axis ? rows.axis - 1 : rows.axis;
}

}  // namespace

std::optional<int> constant_of(const Names& names, const Node* expression) {
  if (expression == nullptr) return std::nullopt;
  if (expression->literal == Literal::number) {
    const std::string text(expression->text);
    const bool whole = text.size() < 9 && text.find_first_not_of("0123456789") == std::string::npos;
    return whole ? std::optional<int>(std::stoi(text)) : std::nullopt;
  }
  if (expression->is(Kind::unary_op) && expression->child("op")->is(Kind::usub)) {
    const std::optional<int> of = constant_of(names, expression->child("operand"));
    return of ? std::optional<int>(-*of) : std::nullopt;
  }
  const bool counts =
      expression->is(Kind::call) && names.callee(expression) == "len" && expression->list("args").size() == 1;
  if (!counts && !expression->is(Kind::name) && !expression->is(Kind::attribute)) return std::nullopt;
  const auto origins = names.origins(counts ? expression->list("args")[0] : expression);
  if (origins.size() != 1) return std::nullopt;
  if (counts)
    return origins[0]->is(Kind::list) || origins[0]->is(Kind::tuple)
               ? std::optional<int>(static_cast<int>(origins[0]->list("elts").size()))
               : std::nullopt;
  return origins[0]->literal == Literal::number ? constant_of(names, origins[0]) : std::nullopt;
}

/// Whether an expression is the number of samples: `x.size(0)`, `x.shape[0]`, `len(x)`, for samples along
/// the first axis.
bool RowWise::counts_samples(const Node* expression) {
  const auto has_axis = [&](const Node* of, std::optional<int> axis) {
    const Answer found = tried([&] { return rows(of); });
    return found && axis && found->axis == *axis;
  };
  if (expression->is(Kind::subscript)) {
    const Node* shape = expression->child("value");
    return shape->is(Kind::attribute) && shape->text == "shape" &&
           has_axis(shape->child("value"), constant_of(names_, expression->child("slice")));
  }
  if (expression->is(Kind::call)) {
    const Node* function = expression->child("func");
    const Nodes given = expression->list("args");
    if (given.size() != 1) return false;
    if (names_.qualified(function) == "len") return has_axis(given[0], 0);
    return function->is(Kind::attribute) && function->text == "size" &&
           has_axis(function->child("value"), constant_of(names_, given[0]));
  }
  // batch * length: all steps of the samples, one after another.
  if (expression->is(Kind::bin_op) && expression->child("op")->is(Kind::mult))
    return counts_samples(expression->child("left"));
  if (!expression->is(Kind::name)) return false;
  bool is_certain = false;
  const auto values = values_before(names_, scope_, expression, is_certain);
  return is_certain && std::all_of(values.begin(), values.end(), [&](const Value& value) {
           if (value.element || value.augmented) return false;
           if (value.part < 0) return counts_samples(value.node);
           const Node* of =
               value.node->is(Kind::call) ? value.node->child("func") : value.node;  // n, k = x.shape
           const bool is_shape = of->is(Kind::attribute) && (of->text == "shape" || of->text == "size");
           return is_shape && has_axis(of->child("value"), value.part);
         });
}

/// `operation` of samples, with the arguments after the tensor.
RowWise::Answer RowWise::shaped(std::string_view operation, const Rows& rows,
                                const std::vector<const Node*>& given, const Node* call) {
  const int axis = rows.axis;
  const Node* named = names_.argument(call, "dim", -1);
  const Node* first = named != nullptr ? named : given.empty() ? nullptr : given[0];
  const std::optional<int> dim = constant_of(names_, first);
  const bool is_other = dim && *dim != axis && (*dim >= 0 || (*dim == -1 && axis == 0));
  const auto at = [&](int where, int dims) -> Answer {
    const bool known = where == 0 || (where > 0 && has_axes_);
    return known ? Answer({where, dims}) : none(call);
  };
  if (operation == "softmax" || operation == "log_softmax" || operation == "cat" || operation == "concat")
    return is_other ? at(axis, rows.dims) : none(call);
  if (operation == "view" || operation == "reshape") {
    const auto sizes = sizes_of(given);
    const bool keeps =
        axis == 0 && !sizes.empty() && (names_.tree().text(*sizes[0]) == "-1" || counts_samples(sizes[0]));
    return keeps ? at(0, static_cast<int>(sizes.size())) : none(call);
  }
  if (operation == "flatten") return axis == 0 && (first == nullptr || dim == 1) ? at(0, 0) : none(call);
  if (operation == "squeeze") {
    if (first == nullptr) return axis == 0 ? at(0, 0) : none(call);
    return is_other ? at(*dim > 0    ? axis_without({axis, axis + 2}, *dim)
                         : *dim == 0 ? axis - 1
                                     : axis,
                         0)
                    : none(call);
  }
  if (operation == "unsqueeze" || operation == "stack") {
    const int where = operation == "stack" && first == nullptr ? 0 : dim.value_or(-2);
    const int dims = rows.dims == 0 ? 0 : rows.dims + 1;
    return where >= -1 ? at(where >= 0 && where <= axis ? axis + 1 : axis, dims) : none(call);
  }
  if (operation == "mean" || operation == "sum") {
    const Node* kept = names_.argument(call, "keepdim", 1);
    if (!dim || axis_without(rows, *dim) < 0) return none(call);
    return kept != nullptr && kept->text == "True" ? at(axis, rows.dims)
                                                   : at(axis_without(rows, *dim), std::max(rows.dims - 1, 0));
  }
  if (operation == "transpose" && given.size() == 2) {
    const std::optional<int> other = constant_of(names_, given[1]);
    if (!dim || !other || *dim < 0 || *other < 0) return none(call);
    return at(*dim == axis ? *other : *other == axis ? *dim : axis, rows.dims);
  }
  if (operation == "permute") return moved(rows, sizes_of(given), call);
  return none(call);
}

RowWise::Answer RowWise::moved(const Rows& rows, const std::vector<const Node*>& order, const Node* call) {
  for (size_t i = 0; i < order.size(); ++i) {
    const std::optional<int> from = constant_of(names_, order[i]);
    if (!from || *from < 0) return none(call);
    if (*from == rows.axis && has_axes_) return Rows{static_cast<int>(i), static_cast<int>(order.size())};
  }
  return none(call);
}

RowWise::Answer RowWise::rows_of_subscript(const Node* subscript) {
  const Node* of = subscript->child("value");
  const Node* slice = subscript->child("slice");
  const std::optional<int> index = constant_of(names_, slice);
  const Answer found = of->is(Kind::call) && index ? tried([&] { return rows(of); }) : rows(of);
  if (!found) return of->is(Kind::call) && index && *index >= 0 ? rows(of, *index) : none(subscript);
  const Nodes all = slice->is(Kind::tuple) ? slice->list("elts") : Nodes{};
  const std::vector<const Node*> parts =
      slice->is(Kind::tuple) ? std::vector<const Node*>(all.begin(), all.end()) : std::vector{slice};
  int from = 0;
  int to = 0;
  int axis = -1;
  for (const Node* part : parts) {
    const bool is_new = part->literal == Literal::null;
    const bool is_range = is_slice(names_.tree(), part);
    if (!is_new && !is_range && !is_index(names_, part)) return none(subscript);
    if (!is_new && from == found->axis) {
      if (!is_all(names_.tree(), part)) return none(subscript);
      axis = to;
    }
    from += is_new ? 0 : 1;
    to += is_new || is_range ? 1 : 0;
  }
  if (axis < 0) axis = found->axis - from + to;
  const int dims = found->dims == 0 ? 0 : found->dims - from + to;
  return axis == 0 || has_axes_ ? Answer({axis, dims}) : none(subscript);
}

/// The values of a loop's variable: `for step in x.split(1, dim=1)`.
RowWise::Answer RowWise::rows_of_iterated(const Value& value) {
  const Node* over = value.node;
  if (!has_axes_) return none(over);
  const bool calls = over->is(Kind::call) && over->child("func")->is(Kind::attribute);
  const std::string_view method = calls ? over->child("func")->text : "";
  if (value.part < 0 && (method == "split" || method == "chunk" || method == "unbind")) {
    const Answer found = rows(over->child("func")->child("value"));
    const Node* given = names_.argument(over, "dim", method == "unbind" ? 0 : 1);
    const std::optional<int> dim = given == nullptr ? 0 : constant_of(names_, given);
    if (!found || !dim || *dim < 0 || *dim == found->axis) return none(over);
    return Rows{method == "unbind" ? axis_without(*found, *dim) : found->axis, 0};
  }
  const Answer found = value.part < 0 && !over->is(Kind::call) ? rows(over) : std::nullopt;
  return found && found->axis > 0 ? Answer({found->axis - 1, std::max(found->dims - 1, 0)}) : none(over);
}

/// The common samples of the tensors of a list: a display, or one to which the scope appends.
RowWise::Answer RowWise::rows_of_list(const Node* list) {
  std::vector<Answer> all;
  const auto add_display = [&](const Node* display) {
    if (display->is(Kind::list_comp)) all.push_back(rows(display->child("elt")));
    for (const Node* one : display->list("elts")) all.push_back(rows(one));
    return display->is(Kind::list) || display->is(Kind::tuple) || display->is(Kind::list_comp);
  };
  if (!list->is(Kind::name)) return add_display(list) ? common(all, list) : none(list);
  bool is_certain = false;
  for (const Value& value : values_before(names_, scope_, list, is_certain)) {
    followed_.insert(names_.place(list));
    statements_.insert(statement_of(value.node));
    if (value.part >= 0 || value.element || !add_display(value.node)) return none(list);
  }
  for (const Node* mention : names_.mentions(names_.place(list))) {
    const Node* method = mention->parent;
    const bool appends = is_inside(mention, scope_) && method->is(Kind::attribute) &&
                         method->text == "append" && method->parent->is(Kind::call) &&
                         method->parent->list("args").size() == 1;
    if (!appends) continue;
    statements_.insert(statement_of(mention));
    all.push_back(rows(method->parent->list("args")[0]));
  }
  return is_certain ? common(all, list) : none(list);
}

/// `torch.zeros(layers, len(x), size)`
RowWise::Answer RowWise::rows_of_new(const Node* call) {
  const Nodes given = call->list("args");
  const auto sizes = sizes_of({given.begin(), given.end()});
  Answer found;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (!counts_samples(sizes[i])) continue;
    if (found || !has_axes_) return none(call);
    found = Rows{static_cast<int>(i), static_cast<int>(sizes.size())};
  }
  return found ? found : none(call);
}

}  // namespace telar::weave
