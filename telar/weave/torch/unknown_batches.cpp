// The true reasons why weave does not know where a batch comes from, or what an optimizer changes.
#include "telar/weave/torch/unknown_batches.h"

#include <algorithm>

#include "telar/weave/torch/writer.h"

namespace telar::weave {

namespace {

/// The nearest loop around a backward pass, also if the pass is in a closure that is defined in the loop.
const Node* loop_of_step(const Node* backward) {
  for (const Node* at = backward; at != nullptr; at = function_of(at)) {
    if (const Node* loop = loop_around(at)) return loop;
  }
  return nullptr;
}

bool is_model(const Names& names, const TorchProgram& program, const Node* expression) {
  const auto origins = names.origins(expression);
  return std::any_of(program.models.begin(), program.models.end(), [&](const TorchModel& model) {
    return std::any_of(model.origins.begin(), model.origins.end(), [&](const Node* origin) {
      return std::find(origins.begin(), origins.end(), origin) != origins.end();
    });
  });
}

/// The inputs of the models in the function around a backward pass.
std::vector<const Node*> inputs_of_models(const Names& names, const TorchProgram& program,
                                          const Node* backward) {
  std::vector<const Node*> found;
  for (const Node* call : names.calls()) {
    if (function_of(call) != function_of(backward) || !is_model(names, program, call->child("func")))
      continue;
    const Nodes given = call->list("args");
    found.insert(found.end(), given.begin(), given.end());
  }
  return found;
}

/// Whether an expression certainly has the same value in each round of a loop: it is a variable that is
/// assigned once, outside the loop, and is no container to which something is added.
bool stays_in(const Names& names, const Node* expression, const Node* loop) {
  const int place = names.place(expression);
  if (!expression->is(Kind::name) || place < 0) return false;
  const auto& values = names.values(place);
  if (values.size() != 1 || values[0].augmented || values[0].element || is_inside(values[0].node, loop))
    return false;
  const Node* function = function_of(values[0].node);
  if (names.is_parameter(place) || (function != nullptr && !is_inside(loop, function))) return false;
  const auto& mentions = names.mentions(place);
  return std::none_of(mentions.begin(), mentions.end(), [&](const Node* mention) {
    const Node* parent = mention->parent;
    const bool added = parent->is(Kind::attribute) && (parent->text == "append" || parent->text == "extend");
    return added || (parent->is(Kind::subscript) && parent->store);
  });
}

}  // namespace

std::string why_not_divided(const Names& names, const TorchProgram& program, const Node* backward,
                            const std::string& reason) {
  const std::string because = reason.empty() ? "" : " (" + reason + ")";
  const std::vector<const Node*> inputs = inputs_of_models(names, program, backward);
  const Node* loop = loop_of_step(backward);
  const bool is_whole = loop != nullptr && !inputs.empty() &&
                        std::all_of(inputs.begin(), inputs.end(),
                                    [&](const Node* input) { return stays_in(names, input, loop); });
  if (is_whole)
    return "each step computes the gradient of all samples at once (full batch), and weave cannot prove that the processes may divide them" +
           because + "; put the samples into a TensorDataset and loop over a torch.utils.data.DataLoader";
  return "the batch of this backward pass does not come from a loop over a torch.utils.data.DataLoader" +
         because +
         "; put the data into a Dataset (text in columns: one stretch of text for each sample) and loop over a DataLoader, so that each process can take its share";
}

std::string why_no_module(const Names& names, const Node* parameters) {
  bool has_module = !parameters->is(Kind::list) && !parameters->is(Kind::tuple);
  walk(*parameters, [&](const Node& node) {
    has_module = has_module || (node.is(Kind::attribute) && node.text.ends_with("parameters"));
    return !has_module;
  });
  if (!has_module && !parameters->list("elts").empty() && names.place(parameters->list("elts")[0]) >= 0)
    return "this optimizer changes tensors, not the parameters of a torch.nn.Module, so weave does not know of which samples their gradients are means; if they are a model's, make them its torch.nn.Parameter and pass model.parameters()";
  return "the module of these parameters cannot be determined; pass model.parameters() of a torch.nn.Module";
}

}  // namespace telar::weave
