// The context of a training loop: the loops over epochs around it, in its own function or in the functions
// that call it.
#include <algorithm>
#include <set>

#include "telar/weave/torch/writer.h"

namespace telar::weave {

namespace {

/// The counter of a `for` loop over range, enumerate and similar functions.
std::string_view counted_by(const Names& names, const Node* loop) {
  const Node* target = loop->child("target");
  bool counts = false;
  bool enumerates = false;
  walk(*loop->child("iter"), [&](const Node& node) {
    if (node.is(Kind::call)) {
      const std::string callee = names.qualified(node.child("func"));
      counts = counts || callee == "range" || callee.ends_with("trange") || callee == "itertools.count";
      enumerates = enumerates || callee == "enumerate";
    }
    return true;
  });
  if (enumerates && target->is(Kind::tuple)) target = target->list("elts")[0];
  const bool variable =
      target->is(Kind::name) || target->is(Kind::attribute);  // `for self.epoch in range(…)`
  return (counts || enumerates) && variable ? names.tree().text(*target) : "";
}

/// The variable that a `while` loop increments: `epoch += 1`.
std::string_view counted_in(const Node* loop) {
  std::string_view found;
  walk(*loop, [&](const Node& node) {
    if (node.is(Kind::aug_assign) && node.parent == loop && node.child("target")->is(Kind::name) &&
        node.child("value")->literal == Literal::number) {
      found = node.child("target")->text;
    }
    return true;
  });
  return found;
}

void collect(const Names& names, const Node* node, std::set<const Node*>& seen,
             std::vector<const Node*>& found) {
  for (const Node* around = loop_around(node); around != nullptr; around = loop_around(around)) {
    if (counter_of(names, around).empty()) continue;
    if (std::find(found.begin(), found.end(), around) == found.end()) found.push_back(around);
    return;
  }
  const Node* function = function_of(node);
  if (function == nullptr || !seen.insert(function).second) return;
  for (const Node* caller : names.calls_of(function)) collect(names, caller, seen, found);
}

}  // namespace

std::vector<const Node*> way_out(const Names& names, const Node* loop) {
  std::vector<const Node*> way = {loop};
  for (int steps = 0; steps < 10; ++steps) {
    const Node* function = function_of(way.back());
    if (function == nullptr) break;
    const auto& callers = names.calls_of(function);
    if (callers.empty() || std::find(way.begin(), way.end(), callers[0]) != way.end()) break;
    way.push_back(callers[0]);
  }
  return way;
}

const Node* loop_around(const Node* node) {
  for (const Node* around = node->parent; around != nullptr; around = around->parent) {
    if (around->is_function() || around->is(Kind::class_def)) return nullptr;
    if (around->is(Kind::for_) || around->is(Kind::while_)) return around;
  }
  return nullptr;
}

std::string_view counter_of(const Names& names, const Node* loop) {
  if (loop->is(Kind::for_)) return counted_by(names, loop);
  return loop->is(Kind::while_) ? counted_in(loop) : "";
}

std::vector<const Node*> epoch_loops(const Names& names, const TorchLoop& loop) {
  std::set<const Node*> seen;
  std::vector<const Node*> found;
  collect(names, loop.loop, seen, found);
  return found;
}

}  // namespace telar::weave
