// The tensors whose samples the processes can divide in a training step without a DataLoader.
#include "telar/weave/torch/share_inputs.h"

#include <algorithm>
#include <array>

#include "telar/weave/torch/writer.h"

namespace telar::weave {

std::optional<Rows> ShareInputs::input_of(const Node* expression) {
  if (step_.is_columns) {
    const bool found = (expression->is(Kind::subscript) && is_rows_of_columns(expression)) ||
                       (expression->is(Kind::call) && is_rows_by_function(expression));
    return found ? std::optional<Rows>(Rows()) : std::nullopt;
  }
  if (expression->is(Kind::name)) return tensor_in(expression, expression);
  if (expression->is(Kind::subscript)) return taken(expression);
  return expression->is(Kind::call) ? converted(expression) : std::nullopt;
}

/// `torch.from_numpy(x)` of such a variable.
std::optional<Rows> ShareInputs::converted(const Node* call) {
  static constexpr std::array<std::string_view, 7> kMakers = {
      "torch.from_numpy", "torch.tensor",      "torch.as_tensor",        "torch.Tensor",
      "torch.LongTensor", "torch.FloatTensor", "torch.autograd.Variable"};
  const Nodes given = call->list("args");
  const bool makes = std::find(kMakers.begin(), kMakers.end(), names_.callee(call)) != kMakers.end();
  return makes && given.size() == 1 && given[0]->is(Kind::name) ? tensor_in(given[0], call) : std::nullopt;
}

/// The samples of a variable, or of the tensor `made` of one: it keeps its value in the steps, or it is a
/// batch that they take.
std::optional<Rows> ShareInputs::tensor_in(const Node* name, const Node* made) {
  const int place = names_.place(name);
  if (place < 0 || names_.definition(name) != nullptr || is_setting(names_, name) || columns_of(names_, name))
    return std::nullopt;
  SharedTensor tensor{std::string(names_.tree().text(*made)), std::string(name->text), 0, {made}};
  std::vector<Value> values = names_.values(place);
  if (!stays(name)) {
    bool is_certain = false;
    values = values_before(names_, step_.scope, name, is_certain);
    const bool of_loop =
        values.size() == 1 && values[0].element && statement_of(values[0].node) == step_.inner_loop;
    if (values.size() != 1 || values[0].augmented || (!is_certain && !of_loop)) return std::nullopt;
    tensor.assigned = statement_of(values[0].node);
    tensor.are_random_rows = are_random_rows(values[0]);
  }
  const bool agree =
      std::all_of(values.begin(), values.end(), [&](const Value& value) { return drawn_.agree(value.node); });
  if (!agree) return std::nullopt;
  tensor.dimension = is_state(name, values) ? 1 : 0;
  add(std::move(tensor));
  return Rows{is_state(name, values) ? 1 : 0, is_state(name, values) ? 3 : 0};
}

/// `x[indices]`, `x[i:i + n]`: rows that the step takes where it uses them.
std::optional<Rows> ShareInputs::taken(const Node* subscript) {
  const Node* slice = subscript->child("slice");
  const Node* first = slice->is(Kind::tuple) ? slice->list("elts")[0] : slice;
  const Node* of = subscript->child("value");
  const Node* statement = statement_of(subscript);
  const bool is_of_step =
      statement->parent == step_.backward->parent && statement->role == step_.backward->role;
  if (names_.tree().text(*first) == ":" || !of->is(Kind::name) || !is_of_step || columns_of(names_, of) ||
      !drawn_.agree(subscript))
    return std::nullopt;
  SharedTensor tensor{std::string(names_.tree().text(*subscript)), std::string(of->text), 0, {subscript}};
  tensor.used = statement;
  tensor.are_random_rows = drawn_.are_random_rows(subscript);
  add(std::move(tensor));
  return Rows();
}

bool ShareInputs::are_random_rows(const Value& value) {
  return value.element ? value.node->is(Kind::call) && drawn_.are_random_rows(value.node, value.part)
                       : drawn_.are_random_rows(value.node, value.part);
}

/// Whether a variable holds the first state of recurrent layers, zeros of [layers, samples, size].
bool ShareInputs::is_state(const Node* name, const std::vector<Value>& values) const {
  const auto& mentions = names_.mentions(names_.place(name));
  const bool is_filled = std::any_of(mentions.begin(), mentions.end(), [](const Node* mention) {
    return mention->parent->is(Kind::subscript) && mention->parent->store && mention->role == "value";
  });
  return !is_filled && !values.empty() && std::all_of(values.begin(), values.end(), [&](const Value& value) {
    const Node* made = value.node;
    while (made->is(Kind::call) && made->child("func")->is(Kind::attribute) && names_.callee(made).empty())
      made = made->child("func")->child("value");  // torch.zeros(…).to(device)
    const bool zeros = made->is(Kind::call) && names_.callee(made) == "torch.zeros";
    return value.part < 0 && zeros && made->list("args").size() == 3;
  });
}

/// Whether the value of a variable stays the same in the steps.
bool ShareInputs::stays(const Node* name) const {
  const auto& mentions = names_.mentions(names_.place(name));
  return std::none_of(mentions.begin(), mentions.end(), [&](const Node* mention) {
    const Node* function = function_of(mention);
    const bool once = function == nullptr || function == function_of(share_.loop);
    // A function may run at any time.
    if (once && !is_inside(mention, share_.loop) && !is_inside(mention, step_.scope)) return false;
    const Node* parent = mention->parent;
    const bool changes = parent->is(Kind::attribute) && mention->role == "value" &&
                         (parent->text.ends_with("_") || parent->text == "append" || parent->text == "grad");
    return mention->store || changes || (parent->is(Kind::subscript) && parent->store);
  });
}

void ShareInputs::add(SharedTensor tensor) {
  const auto known = std::find_if(share_.tensors.begin(), share_.tensors.end(), [&](const SharedTensor& one) {
    return one.text == tensor.text && one.place() == tensor.place();
  });
  if (known == share_.tensors.end()) {
    for (const SharedTensor& one : share_.tensors)
      if (one.name == tensor.name) tensor.name += "_";
    share_.tensors.push_back(std::move(tensor));
  } else if (std::find(known->mentions.begin(), known->mentions.end(), tensor.mentions[0]) ==
             known->mentions.end()) {
    known->mentions.push_back(tensor.mentions[0]);
  }
}

/// `text[i:i + n]` of a tensor [rows, columns], or `text[:, i:i + n]` of [columns, rows].
bool ShareInputs::is_rows_of_columns(const Node* subscript) {
  const Node* name = subscript->child("value");
  if (!name->is(Kind::name) || !stays(name)) return false;
  const std::optional<Columns> columns = columns_of(names_, name);
  if (!columns || !takes_rows(names_, subscript->child("slice"), columns->dimension)) return false;
  use_columns(name, *columns);
  return true;
}

void ShareInputs::use_columns(const Node* name, const Columns& columns) {
  size_ = columns.size;
  add({std::string(name->text), std::string(name->text), columns.dimension, {name}});
}

/// `get_batch(text, i)`: a function that returns such rows of its argument.
bool ShareInputs::is_rows_by_function(const Node* call) {
  const Node* own = names_.called_function(call);
  if (own == nullptr || names_.derives(class_of(own) != nullptr ? class_of(own) : own, {"torch.nn.Module"}))
    return false;
  const Nodes parameters = own->child("args")->list("args");
  for (size_t i = 0; i < call->list("args").size() && i < parameters.size(); ++i) {
    const Node* given = call->list("args")[i];
    if (!given->is(Kind::name) || !stays(given)) continue;
    const std::optional<Columns> columns = columns_of(names_, given);
    if (!columns || class_of(own) != nullptr ||
        !returns_rows(names_, own, parameters[i]->text, columns->dimension))
      continue;
    use_columns(given, *columns);
    return true;
  }
  return false;
}

bool ShareInputs::are_known_samples() const {
  const auto& all = share_.tensors;
  return std::any_of(all.begin(), all.end(), [](const SharedTensor& one) { return one.are_random_rows; }) &&
         std::all_of(all.begin(), all.end(), [](const SharedTensor& one) {
           return one.are_random_rows || one.dimension == 1;  // a first state
         });
}

void ShareInputs::sort() {
  std::stable_sort(
      share_.tensors.begin(), share_.tensors.end(), [](const SharedTensor& a, const SharedTensor& b) {
        return (a.place() == nullptr ? 0 : a.place()->begin) < (b.place() == nullptr ? 0 : b.place()->begin);
      });
  // A state has its samples along another axis than the tensor that tells their number.
  const auto of_samples =
      std::find_if(share_.tensors.begin(), share_.tensors.end(), [&](const SharedTensor& one) {
        return one.dimension == 0 && one.place() == share_.tensors.front().place();
      });
  if (of_samples != share_.tensors.end()) std::rotate(share_.tensors.begin(), of_samples, of_samples + 1);
}

}  // namespace telar::weave
