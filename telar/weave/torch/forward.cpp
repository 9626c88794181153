// DDP averages the gradients of layers that its forward() applies: what bypasses it is redirected.
#include <algorithm>
#include <unordered_set>

#include "telar/weave/torch/writer.h"

namespace telar::weave {

namespace {

/// Methods of torch.nn.Module that do not compute a part of the forward pass.
const std::unordered_set<std::string_view>& module_methods() {
  static const std::unordered_set<std::string_view> names = {"state_dict",
                                                             "load_state_dict",
                                                             "named_parameters",
                                                             "named_modules",
                                                             "modules",
                                                             "children",
                                                             "named_children",
                                                             "buffers",
                                                             "named_buffers",
                                                             "apply",
                                                             "half",
                                                             "float",
                                                             "double",
                                                             "bfloat16",
                                                             "cpu",
                                                             "type",
                                                             "extra_repr",
                                                             "register_forward_hook",
                                                             "get_submodule",
                                                             "get_parameter",
                                                             "share_memory",
                                                             "save_pretrained"};
  return names;
}

}  // namespace

bool computes_gradients(const TorchWeaving& w, const Node* node) {
  for (const Node* around = node; around != nullptr; around = around->parent) {
    if (around->is(Kind::with)) {
      for (const Node* item : around->list("items")) {
        const Node* context = item->child("context_expr");
        const std::string callee = context->is(Kind::call) ? w.names.qualified(context->child("func")) : "";
        if (callee == "torch.no_grad" || callee == "torch.inference_mode") return false;
      }
    }
    if (around->is_function()) {
      for (const Node* decorator : around->list("decorator_list")) {
        const Node* function = decorator->is(Kind::call) ? decorator->child("func") : decorator;
        const std::string callee = w.names.qualified(function);
        if (callee == "torch.no_grad" || callee == "torch.inference_mode") return false;
      }
    }
  }
  const std::vector<const Node*> loops = w.program.training_loops();
  if (std::ranges::any_of(loops, [&](const Node* loop) { return is_inside(node, loop); })) return true;
  const Node* function = function_of(node);
  const Node* outer = function == nullptr ? nullptr : class_of(function);
  if (function == nullptr || (outer != nullptr && w.names.derives(outer, {"torch.nn.Module"}))) return false;
  return std::ranges::any_of(loops, [&](const Node* loop) { return w.called_in(loop).contains(function); });
}

bool bypasses_forward(const TorchWeaving& w, const Node* attribute) {
  const Node* call = attribute;
  while (call->parent->is(Kind::attribute) && call->role == "value") call = call->parent;
  if (!call->parent->is(Kind::call) || call->role != "func" || module_methods().contains(call->text))
    return false;
  if (!computes_gradients(w, attribute)) return false;
  const Node* method = w.names.definition(call);
  bool applies_layers = method == nullptr;
  if (method != nullptr) {
    walk(*method, [&](const Node& node) {
      if (!node.is(Kind::call)) return true;
      const Node* function = node.child("func");
      const bool of_self = function->is(Kind::name) && function->text == "self";
      const bool layer = function->is(Kind::attribute) && function->child("value")->is(Kind::name) &&
                         function->child("value")->text == "self" &&
                         (w.names.definition(function) == nullptr || function->text == "forward");
      applies_layers = applies_layers || of_self || layer;
      return true;
    });
  }
  return applies_layers;
}

}  // namespace telar::weave
