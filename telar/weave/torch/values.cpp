#include "telar/weave/torch/values.h"

#include <algorithm>

namespace telar::weave {

bool is_number_of_batch(const Names& names, const Node& expression) {
  if (expression.is(Kind::call)) {  // a scalar: x.mean(), torch.mean(x)
    const Node* function = expression.child("func");
    const std::string callee = names.qualified(function);
    const size_t given = expression.list("args").size() + expression.list("keywords").size();
    const bool reduces =
        function->is(Kind::attribute) && (function->text == "mean" || function->text == "sum");
    if (reduces && given == (callee.empty() ? 0U : 1U)) return true;
  }
  bool found = false;
  walk(expression, [&](const Node& node) {
    if (found || node.is(Kind::lambda)) return false;
    if (!node.is(Kind::call)) return true;
    const Node* function = node.child("func");
    found =
        names.qualified(function) == "float" || (function->is(Kind::attribute) && function->text == "item");
    return !found;
  });
  return found;
}

std::vector<std::string_view> losses_of(const Names& names, const TorchLoop& loop) {
  std::vector<std::string_view> found;
  walk(*loop.loop, [&](const Node& node) {
    if (!node.is(Kind::call) || !is_backward(&node)) return true;
    const Node* receiver = node.child("func")->child("value");
    if (receiver->is(Kind::call) && !receiver->list("args").empty()) receiver = receiver->list("args")[0];
    if (receiver->is(Kind::name) || receiver->is(Kind::attribute))
      found.push_back(names.tree().text(*receiver));
    return true;
  });
  return found;
}

std::vector<const Node*> mentions_around(const Names& names, const Node* loop, std::string_view text) {
  std::vector<const Node*> found;
  const Node* function = function_of(loop);
  walk(function != nullptr ? *function : *module_of(loop), [&](const Node& node) {
    if ((node.is(Kind::name) || node.is(Kind::attribute)) && names.tree().text(node) == text &&
        function_of(&node) == function)
      found.push_back(&node);
    return true;
  });
  return found;
}

bool is_read_after(const Names& names, const Node* loop, std::string_view text) {
  std::vector<const Node*> assigned;  // statements after the loop that assign it
  const auto all = mentions_around(names, loop, text);
  for (const Node* mention : all) {
    if (mention->begin > loop->end && mention->store) assigned.push_back(statement_of(mention));
  }
  return std::any_of(all.begin(), all.end(), [&](const Node* mention) {
    if (mention->begin <= loop->end || mention->store) return false;
    return std::none_of(assigned.begin(), assigned.end(), [&](const Node* other) {
      const bool binds_first = other->is(Kind::for_) || other->is(Kind::with);
      return is_inside(mention, other->parent) &&
             (other->end < mention->begin || (binds_first && is_inside(mention, other)));
    });
  });
}

bool sees_share(const TorchWeaving& w, const TorchLoop& loop) {
  const bool shared = std::any_of(loop.loader.loaders.begin(), loop.loader.loaders.end(),
                                  [&](size_t loader) { return w.program.loaders[loader].trains; });
  // If every process sees all samples, only results that depend on their order differ.
  return shared && (loop.trains || !w.dialect.choices().divide_epochs);
}

std::vector<std::string> for_shares(TorchWeaving& w, const TorchLoop& loop, std::vector<std::string> lines) {
  const bool whole = std::any_of(loop.loader.loaders.begin(), loop.loader.loaders.end(),
                                 [&](size_t loader) { return !w.program.loaders[loader].trains; });
  if (!whole || w.dialect.choices().divide_epochs) return lines;
  if (loop.loader.expression->is(Kind::call))
    w.refuse(loop.loader.expression, "keep the DataLoader in a variable");
  w.dialect.import("from torch.utils.data.distributed import DistributedSampler", loop.loop);
  for (std::string& line : lines) line.insert(0, "    ");
  lines.insert(lines.begin(), "if isinstance(" + loop.loader.loader_in(w.text(*loop.loader.expression)) +
                                  ".sampler, DistributedSampler):");
  return lines;
}

bool same_repetition(const Node* a, const Node* b) {
  const auto around = [](const Node* node) {
    for (node = node->parent;
         node != nullptr && !node->is(Kind::for_) && !node->is(Kind::while_) && !node->is_function();) {
      node = node->parent;
    }
    return node;
  };
  return around(a) == around(b);
}

std::set<std::string_view> sources_of_steps(const Names& names, const TorchLoop& loop) {
  std::set<std::string_view> found;
  const auto collect = [&](const Node& expression) {
    walk(expression, [&](const Node& node) {
      if (node.is(Kind::name) || node.is(Kind::attribute)) found.insert(names.tree().text(node));
      return true;
    });
  };
  for (const std::string_view text : losses_of(names, loop)) found.insert(text);
  for (int round = 0; round < 3; ++round) {
    walk(*loop.loop, [&](const Node& node) {
      if (node.is(Kind::call) && is_backward(&node)) collect(*node.child("func")->child("value"));
      if (!node.is(Kind::assign)) return true;
      for (const Node* target : node.list("targets")) {
        const bool rate = target->is(Kind::subscript) && target->child("slice")->text == "lr";
        if (rate || found.contains(names.tree().text(*target))) collect(*node.child("value"));
      }
      return true;
    });
  }
  return found;
}

}  // namespace telar::weave
