// Finds where the order of a set matters. The order of a set of strings differs between processes, because
// Python hashes strings with a secret of each process.
#include "telar/weave/python/set_orders.h"

#include <algorithm>
#include <unordered_set>

namespace telar::weave {

namespace {

using Words = std::unordered_set<std::string_view>;

class SetReader {
 public:
  explicit SetReader(const Names& names) : names_(names) {}

  std::vector<SetOrder> read() {
    for (const Node& node : names_.tree().nodes()) {
      if (node.is(Kind::for_)) add(node.child("iter"), nullptr);
      if (node.is(Kind::comprehension) && !is_of_order(*node.parent)) add(node.child("iter"), nullptr);
      if (node.is(Kind::call)) read_call(&node);
    }
    return std::move(found_);
  }

 private:
  bool calls(const Node* node, const Words& names) const {
    return node->is(Kind::call) && names.contains(names_.qualified(node->child("func")));
  }

  /// Whether the order in which a comprehension runs does not matter.
  bool is_of_order(const Node& comprehension) const {
    return comprehension.is(Kind::set_comp) || is_given_to_unordered(&comprehension);
  }

  bool is_given_to_unordered(const Node* node) const {
    static const Words unordered = {"sorted", "set", "frozenset", "len", "sum",
                                    "min",    "max", "any",       "all", "collections.Counter"};
    return node->role == "args" && calls(node->parent, unordered);
  }

  void read_call(const Node* call) {
    static const Words takers = {"list", "tuple", "enumerate", "zip", "iter"};
    if (!calls(call, takers) || is_given_to_unordered(call)) return;
    for (const Node* given : call->list("args")) {
      add(given, calls(call, {"list", "tuple"}) ? call : nullptr);
    }
  }

  bool is_set(const Node* expression, int depth = 6) const {
    static const Words makers = {"set", "frozenset"};
    static const Words methods = {"union", "intersection", "difference", "symmetric_difference", "copy"};
    if (depth == 0) return false;
    if (expression->is(Kind::set_comp) || calls(expression, makers)) return true;
    if (expression->is(Kind::other)) return names_.tree().text(*expression).starts_with('{');
    if (expression->is(Kind::call)) {
      const Node* function = expression->child("func");
      return function->is(Kind::attribute) && methods.contains(function->text) &&
             is_set(function->child("value"), depth - 1);
    }
    if (!expression->is(Kind::name) && !expression->is(Kind::attribute)) return false;
    const auto origins = names_.origins(expression);
    return std::any_of(origins.begin(), origins.end(),
                       [&](const Node* one) { return one != expression && is_set(one, depth - 1); });
  }

  void add(const Node* set, const Node* list) {
    if (is_set(set) && !is_only_shown(set)) found_.push_back({set, list});
  }

  bool is_only_shown(const Node* node) const {
    const Node* statement = statement_of(node);
    return statement->is(Kind::expr) && calls(statement->child("value"), {"print"});
  }

  const Names& names_;
  std::vector<SetOrder> found_;
};

}  // namespace

std::vector<SetOrder> read_set_orders(const Names& names) { return SetReader(names).read(); }

}  // namespace telar::weave
