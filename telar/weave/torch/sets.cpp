// The order of a set of strings differs between processes, because Python hashes strings with a secret of
// each process. A vocabulary that is numbered in this order must be the same in all of them.
#include <algorithm>
#include <unordered_set>

#include "telar/weave/torch/writer.h"

namespace telar::weave {

namespace {

using Words = std::unordered_set<std::string_view>;

class Sets {
 public:
  explicit Sets(TorchWeaving& weaving) : w_(weaving) {}

  void write() {
    for (const Node& node : w_.names.tree().nodes()) {
      if (node.is(Kind::for_)) agree(node.child("iter"), node.child("iter"));
      if (node.is(Kind::comprehension) && !is_of_order(*node.parent))
        agree(node.child("iter"), node.child("iter"));
      if (node.is(Kind::call)) read_call(&node);
    }
  }

 private:
  bool calls(const Node* node, const Words& names) const {
    return node->is(Kind::call) && names.contains(w_.names.qualified(node->child("func")));
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
      const bool whole = calls(call, {"list", "tuple"});
      agree(given, whole ? call : given);
    }
  }

  bool is_set(const Node* expression, int depth = 6) const {
    static const Words makers = {"set", "frozenset"};
    static const Words methods = {"union", "intersection", "difference", "symmetric_difference", "copy"};
    if (depth == 0) return false;
    if (expression->is(Kind::set_comp) || calls(expression, makers)) return true;
    if (expression->is(Kind::other)) return w_.text(*expression).starts_with('{');
    if (expression->is(Kind::call)) {
      const Node* function = expression->child("func");
      return function->is(Kind::attribute) && methods.contains(function->text) &&
             is_set(function->child("value"), depth - 1);
    }
    if (!expression->is(Kind::name) && !expression->is(Kind::attribute)) return false;
    const auto origins = w_.names.origins(expression);
    return std::any_of(origins.begin(), origins.end(),
                       [&](const Node* one) { return one != expression && is_set(one, depth - 1); });
  }

  /// Lets all processes take the elements of a set in the first one's order. `whole`: the list of it, or
  /// the set.
  void agree(const Node* set, const Node* whole) {
    if (!is_set(set) || is_only_shown(set) || set->inside_fstring || is_in_worker(w_.names, set)) return;
    const std::string of_first = of_first_rank(w_, set);
    const bool is_list = whole != set;
    w_.edits.insert(whole->begin, of_first + (is_list ? "(" : "(list("));
    w_.edits.insert(whole->end, is_list ? ")" : "))");
    w_.edits.explain(set->line, of_first + "(…)", "the order of a set differs between processes");
    w_.agreed.insert(whole->parent->is(Kind::call) && !is_list ? whole->parent : whole);
  }

  bool is_only_shown(const Node* node) const {
    const Node* statement = statement_of(node);
    return statement->is(Kind::expr) && calls(statement->child("value"), {"print"});
  }

  TorchWeaving& w_;
};

}  // namespace

void write_sets(TorchWeaving& weaving) { Sets(weaving).write(); }

}  // namespace telar::weave
