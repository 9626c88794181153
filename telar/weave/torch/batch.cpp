#include "telar/weave/torch/batch.h"

#include <algorithm>

namespace telar::weave {

namespace {

/// Whether a function draws random numbers, which differ between the processes while they train.
bool draws(const std::string& callee) {
  return callee.starts_with("torch.rand") || callee.starts_with("numpy.random.") ||
         callee.starts_with("random.") || callee == "torch.normal" || callee == "torch.bernoulli" ||
         callee == "torch.multinomial";
}

}  // namespace

BatchValues::BatchValues(const Names& names, const TorchLoop& loop, bool with_sizes)
    : names_(names), with_sizes_(with_sizes) {
  bind(*loop.loop->child("target"));
  const bool counted = loop.index != nullptr && loop.index->is(Kind::name);
  if (counted) texts_.erase(loop.index->text);
  // A value can depend on one that is assigned later, in the batch before.
  for (int round = 0; round < 3; ++round) {
    walk(*loop.loop, [&](const Node& node) {
      if (node.is(Kind::assign) && are_in(*node.child("value"))) {
        for (const Node* target : node.list("targets")) bind(*target);
      }
      const bool assigns =
          node.is(Kind::aug_assign) || node.is(Kind::ann_assign) || node.is(Kind::named_expr);
      if (assigns && node.child("value") != nullptr && are_in(*node.child("value")))
        bind(*node.child("target"));
      if (node.is(Kind::for_) && &node != loop.loop && are_in(*node.child("iter")))
        bind(*node.child("target"));
      return true;
    });
  }
}

void BatchValues::bind(const Node& target) {
  if (target.is(Kind::name) || target.is(Kind::attribute)) {
    texts_.insert(names_.tree().text(target));
  } else if (target.is(Kind::tuple) || target.is(Kind::list)) {
    for (const Node* one : target.list("elts")) bind(*one);
  } else if (target.is(Kind::starred) || target.is(Kind::subscript)) {
    bind(*target.child("value"));
  }
}

/// `x.size(0)`, `x.shape`, `len(x)`
bool BatchValues::is_size(const Node& node) const {
  if (node.is(Kind::attribute)) return node.text == "shape" && node.role != "func";
  if (!node.is(Kind::call)) return false;
  const Node* function = node.child("func");
  return (function->is(Kind::attribute) && function->text == "size") || names_.qualified(function) == "len";
}

bool BatchValues::are_in(const Node& expression) const {
  bool found = false;
  walk(expression, [&](const Node& node) {
    if (found || (!with_sizes_ && is_size(node))) return false;
    found =
        ((node.is(Kind::name) || node.is(Kind::attribute)) && texts_.contains(names_.tree().text(node))) ||
        (node.is(Kind::call) && draws(names_.callee(&node)));
    return !found;
  });
  return found;
}

}  // namespace telar::weave
