// DistributedDataParallel replaces the model's variable. References that were made before remain the bare
// model, whose gradients nothing averages; so the model is wrapped before the first of them.
#include "telar/weave/torch/references.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>

namespace telar::weave {

namespace {

bool is_display(const Node& node) {
  return node.is(Kind::list) || node.is(Kind::tuple) || node.is(Kind::dict) || node.is(Kind::starred) ||
         node.is(Kind::if_exp) || node.is(Kind::list_comp) || node.is(Kind::comprehension) ||
         node.is(Kind::dict_comp) || node.is(Kind::set_comp);
}

/// `model.to(device)`, `model.cuda()`
bool is_move(const Node* mention) {
  static const std::unordered_set<std::string_view> moves = {"to", "cuda"};
  const Node* attribute = mention->parent;
  return attribute->is(Kind::attribute) && mention->role == "value" && moves.contains(attribute->text) &&
         attribute->parent->is(Kind::call) && attribute->role == "func";
}

bool is_in_lambda(const Node* node) {
  while (node != nullptr && !node->is_statement() && !node->is(Kind::lambda)) node = node->parent;
  return node != nullptr && node->is(Kind::lambda);
}

class References {
 public:
  References(const TorchWeaving& weaving, int place, const Node* statement)
      : w_(weaving), place_(place), statement_(statement) {}

  const Node* first_kept() const {
    for (const Node* mention : here()) {
      if (!mention->store && mention->begin < statement_->begin && keeps(mention)) return mention;
    }
    return nullptr;
  }

  /// The statement with a reference, in the block of the wrapping or around it. The model must be complete.
  const Node* before(const Node* kept) const {
    const Node* at = statement_of(kept);
    while (at->parent != nullptr && !is_inside(statement_, at->parent)) at = statement_of(at->parent);
    for (const Node* mention : here()) {
      const bool between = mention->begin > at->begin && mention->begin < statement_->begin;
      if (!between || (!mention->store && !is_move(mention))) continue;
      const Node* other = statement_of(mention);
      w_.refuse(
          statement_of(kept),
          other == statement_of(kept) || other->line <= kept->line
              ? "this keeps a reference to the model where it is created, but the model must be wrapped between the two; create the model in a statement of its own before this"
              : fmt::format(
                    "this keeps a reference to the model before line {} completes it, so it would not be the model that averages its gradients; move it behind that line",
                    other->line));
    }
    return at;
  }

  /// The statement after the last one that moves the model to its device before it is used; null if none
  /// follows the wrapping.
  const Node* after_moves() const {
    const Node* last = nullptr;
    const auto& block = block_of(statement_);
    for (const Node* mention : here()) {
      if (mention->begin < statement_->begin || is_inside(mention, statement_)) continue;
      if (mention->store) continue;
      const Node* top = mention;
      while (top != nullptr && std::find(block.begin(), block.end(), top) == block.end()) top = top->parent;
      if (top == nullptr || is_used(mention, top)) break;
      if (is_move(mention)) last = top;
    }
    if (last == nullptr) return nullptr;
    const auto found = std::find(block.begin(), block.end(), last);
    if (found + 1 == block.end())
      w_.refuse(last, "move the model to its device before its optimizer is created");
    return *(found + 1);
  }

 private:
  /// The mentions of the model in the function of the wrapping.
  std::vector<const Node*> here() const {
    std::vector<const Node*> found;
    for (const Node* mention : w_.names.mentions(place_)) {
      if (function_of(mention) == function_of(statement_) && module_of(mention) == module_of(statement_))
        found.push_back(mention);
    }
    return found;
  }

  /// Whether the model is used here as it must be wrapped for: applied, in a loop, or passed to a function.
  static bool is_used(const Node* mention, const Node* top) {
    if (top->is(Kind::for_) || top->is(Kind::while_) || top->is(Kind::async_for)) return true;
    const Node* parent = mention->parent;
    return parent->is(Kind::call) || parent->is(Kind::keyword);
  }

  /// Whether an expression with the model in it outlives its statement.
  bool keeps(const Node* mention, int depth = 3) const {
    const Node* at = mention;
    if (at->parent->is(Kind::attribute) && at->role == "value") {
      if (!is_forward_as_value(at->parent)) return false;
      at = at->parent;
    }
    const bool alone = at == mention;
    bool chosen = true;  // model = model.cuda() if there is a GPU else model
    while (is_display(*at->parent) || at->parent->is(Kind::named_expr)) {
      chosen = chosen && at->parent->is(Kind::if_exp);
      at = at->parent;
    }
    const Node* parent = at->parent;
    if (parent->is(Kind::arguments)) return true;  // the default of a function's parameter
    if (chosen && parent->is(Kind::assign) && w_.names.place(parent->list("targets")[0]) == place_)
      return false;
    if (parent->is(Kind::assign) || parent->is(Kind::ann_assign)) return at->role == "value";
    const bool by_name = parent->is(Kind::keyword);
    const Node* call = by_name ? parent->parent : parent;
    if (!call->is(Kind::call) || at->role == "func" || call->child("func") == at) return false;
    return keeps_argument(call, alone ? mention : at, by_name ? parent : nullptr, depth);
  }

  bool keeps_argument(const Node* call, const Node* argument, const Node* keyword, int depth) const {
    static const std::unordered_set<std::string_view> adders = {"append",     "add",    "insert",
                                                                "setdefault", "extend", "update"};
    const Node* function = call->child("func");
    const std::string& callee = w_.names.callee(call);
    if (callee == "functools.partial" || callee == "setattr") return true;
    const Node* own = w_.names.definition(function);
    if (own == nullptr) return function->is(Kind::attribute) && adders.contains(function->text);
    if (own->is(Kind::class_def)) return true;
    if (!own->is_function() || depth == 0) return false;
    const std::string_view name = keyword != nullptr ? keyword->text : parameter(own, call, argument);
    return !name.empty() && function_keeps(own, name, depth - 1);
  }

  /// The name of the parameter that receives a positional argument; empty if there is none.
  static std::string_view parameter(const Node* function, const Node* call, const Node* argument) {
    const auto& given = call->list("args");
    const auto found = std::find(given.begin(), given.end(), argument);
    const auto& names = function->child("args")->list("args");
    const auto index = static_cast<size_t>(found - given.begin());
    return found == given.end() || index >= names.size() ? std::string_view() : names[index]->text;
  }

  /// Whether a function keeps a parameter: in a function within it, or somewhere that outlives the call.
  bool function_keeps(const Node* function, std::string_view name, int depth) const {
    bool kept = false;
    walk(*function, [&](const Node& node) {
      if (kept || !node.is(Kind::name) || node.text != name || node.store) return !kept;
      kept = function_of(&node) != function || is_in_lambda(&node) ||
             (assigns_elsewhere(&node) && keeps(&node, depth));
      return !kept;
    });
    return kept;
  }

  /// Whether a reference is not only given to a variable of its own function.
  static bool assigns_elsewhere(const Node* node) {
    const Node* statement = statement_of(node);
    if (!statement->is(Kind::assign)) return true;
    const auto& targets = statement->list("targets");
    return std::any_of(targets.begin(), targets.end(), [](const Node* one) { return !one->is(Kind::name); });
  }

  const TorchWeaving& w_;
  int place_;
  const Node* statement_;
};

}  // namespace

const Node* wrapping_statement(const TorchWeaving& weaving, int place, const Node* statement) {
  const References references(weaving, place, statement);
  if (const Node* kept = references.first_kept()) return references.before(kept);
  const Node* later = references.after_moves();
  return later != nullptr ? later : statement;
}

bool is_same_on_wrapper(std::string_view attribute) {
  static const std::unordered_set<std::string_view> names = {
      "train",  "eval",    "parameters",     "zero_grad", "training",
      "module", "no_sync", "requires_grad_", "to",        "cuda"};
  return names.contains(attribute);
}

bool is_forward_as_value(const Node* attribute) {
  const bool called = attribute->parent->is(Kind::call) && attribute->role == "func";
  return !called && (attribute->text == "forward" || attribute->text == "__call__");
}

}  // namespace telar::weave
