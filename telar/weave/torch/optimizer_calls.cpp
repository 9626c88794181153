#include "telar/weave/torch/optimizer_calls.h"

#include <algorithm>

namespace telar::weave {

namespace {

bool holds(const std::vector<const Node*>& origins, const Node* one) {
  return std::find(origins.begin(), origins.end(), one) != origins.end();
}

/// Whether an optimizer updates a model that an expression may be.
bool updates(const TorchWeaving& w, const TorchOptimizer& optimizer,
             const std::vector<const Node*>& origins) {
  return std::any_of(optimizer.models.begin(), optimizer.models.end(), [&](size_t model) {
    const auto& own = w.program.models[model].origins;
    return std::any_of(own.begin(), own.end(), [&](const Node* one) { return holds(origins, one); });
  });
}

}  // namespace

OptimizerCall optimizer_call(const TorchWeaving& w, const Node* call) {
  OptimizerCall found;
  const Node* function = call->child("func");
  if (!function->is(Kind::attribute) || (function->text != "step" && function->text != "zero_grad"))
    return found;
  found.steps = function->text == "step";
  found.expression = function->child("value");
  const auto add = [&](bool of_model) {
    const auto origins = w.names.origins(found.expression);
    for (const TorchOptimizer& optimizer : w.program.optimizers) {
      if (holds(origins, optimizer.call) || (of_model && updates(w, optimizer, origins)))
        found.optimizers.push_back(&optimizer);
    }
  };
  add(!found.steps);
  if (found.optimizers.empty() && found.steps && call->list("args").size() == 1) {
    found.expression = call->list("args")[0];
    add(false);
  }
  return found;
}

}  // namespace telar::weave
