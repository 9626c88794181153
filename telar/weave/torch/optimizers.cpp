// Which calls create an optimizer of torch.optim, under whatever name.
#include "telar/weave/torch/program.h"

namespace telar::weave {

namespace {

constexpr std::string_view kOptim = "torch.optim.";

/// "SGD" for "torch.optim.SGD"; empty for anything that is no class of torch.optim.
std::string class_of_library(const std::string& callee) {
  if (!callee.starts_with(kOptim)) return {};
  const std::string name = callee.substr(kOptim.size());
  return name.find('.') == std::string::npos && name[0] >= 'A' && name[0] <= 'Z' ? name : "";
}

/// The class of torch.optim from which a class of the program derives; empty if it derives from none.
std::string library_base(const Names& names, const Node* own, int depth) {
  for (const Node* base : own->list("bases")) {
    if (std::string name = class_of_library(names.qualified(base)); !name.empty()) return name;
    const Node* found = names.definition(base);
    if (found == nullptr || !found->is(Kind::class_def) || found == own || depth == 0) continue;
    if (std::string name = library_base(names, found, depth - 1); !name.empty()) return name;
  }
  return {};
}

}  // namespace

std::string optimizer_name(const Names& names, const Node* call) {
  const std::string name = class_of_library(names.callee(call));
  if (!name.empty()) return name == "Optimizer" ? "" : name;
  const Node* function = call->child("func");
  if (function->is(Kind::call) && names.qualified(function->child("func")) == "getattr") {
    const auto& arguments = function->list("args");
    if (!arguments.empty() && names.qualified(arguments[0]) == "torch.optim") return "?";
  }
  // def fit(…, make_optimizer=torch.optim.SGD)
  for (const Value& value : names.values(names.place(function)))
    if (!class_of_library(names.qualified(value.node)).empty()) return "?";
  const Node* own = names.definition(function);
  if (own == nullptr || !own->is(Kind::class_def)) return {};
  const std::string base = library_base(names, own, 8);
  // Its own constructor decides about the learning rate.
  const bool is_own = base == "Optimizer" || (!base.empty() && names.method(own, "__init__") != nullptr);
  return is_own ? std::string(own->text) : base;
}

}  // namespace telar::weave
