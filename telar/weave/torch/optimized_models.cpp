// The modules whose parameters the optimizers of a PyTorch program update.
#include <algorithm>

#include "telar/weave/torch/program.h"
#include "telar/weave/torch/unknown_batches.h"

namespace telar::weave {

namespace {

class ModelReader {
 public:
  ModelReader(const Names& names, std::vector<TorchModel>& models) : names_(names), models_(models) {}

  void read_models(TorchOptimizer& optimizer) {
    const Node* parameters = names_.argument(optimizer.call, "params", 0);
    if (parameters == nullptr)
      refuse(optimizer.call, "pass the parameters as its first argument, as in model.parameters()");
    std::vector<const Node*> found;
    receivers(parameters, found, 4);
    for (const Node* receiver : found) add_model(optimizer, receiver);
    if (optimizer.models.empty()) {
      refuse(optimizer.call, why_no_module(names_, parameters));
    }
  }

 private:
  [[noreturn]] void refuse(const Node* node, const std::string& decision) const {
    throw Refusal{node->line, std::string(names_.tree().text(*node)), decision};
  }

  /// The objects whose `.parameters()` an expression uses, followed through variables.
  void receivers(const Node* expression, std::vector<const Node*>& found, int depth) const {
    walk(*expression, [&](const Node& node) {
      if (node.is(Kind::call)) {
        const Node* function = node.child("func");
        if (function->is(Kind::attribute) &&
            (function->text == "parameters" || function->text == "named_parameters")) {
          found.push_back(function->child("value"));
          return false;
        }
        const Node* own = names_.called_function(&node);
        if (own != nullptr && depth > 0) {
          walk(*own, [&](const Node& inner) {
            if (inner.is(Kind::return_) && inner.child("value") != nullptr)
              receivers(inner.child("value"), found, depth - 1);
            return true;
          });
        }
      }
      if (node.is(Kind::name) && !node.store && depth > 0) {
        for (const Value& value : names_.values(names_.place(&node))) {
          if (value.node->is_function() || value.node->is(Kind::class_def)) continue;
          // A module is not a collection of parameters.
          const bool is_call_of_class =
              value.node->is(Kind::call) && names_.definition(value.node->child("func")) != nullptr;
          if (!is_call_of_class && value.node != expression) receivers(value.node, found, depth - 1);
        }
        for (const Node* mention : names_.mentions(names_.place(&node))) {
          // params.append(…), params += …
          const Node* attribute = mention->parent;
          if (attribute->is(Kind::attribute) &&
              (attribute->text == "append" || attribute->text == "extend") &&
              attribute->parent->is(Kind::call)) {
            for (const Node* given : attribute->parent->list("args")) receivers(given, found, depth - 1);
          }
        }
      }
      return true;
    });
  }

  void add_model(TorchOptimizer& optimizer, const Node* receiver) {
    // For model.features.parameters(), the whole model is wrapped.
    const Node* base = receiver;
    for (const Node* inner = receiver; inner->is(Kind::attribute) || inner->is(Kind::subscript);) {
      inner = inner->child("value");
      if (is_module(inner)) base = inner;
    }
    const Node* created = optimizer.call;
    if (base->is(Kind::name) && base->text == "self") {
      created = call_of_method(optimizer.call);
      base = created->child("func")->child("value");
    }
    const int place = names_.place(base);
    if (place < 0) refuse(optimizer.call, "assign the model to a variable before its parameters are used");
    const auto origins = names_.origins(base);
    size_t index = 0;
    while (index < models_.size() && models_[index].place != place) ++index;
    if (index == models_.size()) {
      models_.push_back({place, std::string(names_.tree().text(*base)), origins, created});
    }
    if (std::find(optimizer.models.begin(), optimizer.models.end(), index) == optimizer.models.end()) {
      optimizer.models.push_back(index);
    }
  }

  /// The call `model.configure_optimizers(…)` of the method in which the module creates its optimizer.
  const Node* call_of_method(const Node* made) const {
    const Node* function = function_of(made);
    const auto callers = function == nullptr ? std::vector<const Node*>() : names_.calls_of(function);
    const Node* callee = callers.size() == 1 ? callers[0]->child("func") : nullptr;
    const Node* receiver =
        callee != nullptr && callee->is(Kind::attribute) ? callee->child("value") : nullptr;
    if (receiver == nullptr || (receiver->is(Kind::name) && receiver->text == "self") ||
        names_.place(receiver) < 0)
      refuse(made, "the module creates its own optimizer; create the optimizer where the module is created");
    return callers[0];
  }

  /// Whether an expression holds an instance of a class, not a plain container.
  bool is_module(const Node* expression) const {
    for (const Node* origin : names_.origins(expression)) {
      if (origin->is(Kind::class_def)) {
        if (names_.derives(origin, {"torch.nn.Module"})) return true;
        continue;
      }
      if (!origin->is(Kind::call)) continue;
      const Node* own = names_.definition(origin->child("func"));
      if (own != nullptr && own->is(Kind::class_def) && !names_.derives(own, {"torch.nn.Module"})) continue;
      return true;
    }
    return false;
  }

  const Names& names_;
  std::vector<TorchModel>& models_;
};

}  // namespace

void read_models(const Names& names, TorchProgram& program) {
  ModelReader reader(names, program.models);
  for (TorchOptimizer& optimizer : program.optimizers) reader.read_models(optimizer);
}

}  // namespace telar::weave
