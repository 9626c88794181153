// Counts of samples or tokens from which a script computes its learning rate, as in minGPT's trainer. Each
// process counts those of its own batches, but the rate depends on those of all.
#include <algorithm>

#include "telar/weave/torch/values.h"

namespace telar::weave {

namespace {

/// Whether each batch begins the variable anew before a statement: a part of its loss, not a count.
bool begins_in_batch(const TorchWeaving& w, const TorchLoop& loop, const Node* statement,
                     std::string_view text) {
  bool begins = false;
  walk(*loop.loop, [&](const Node& node) {
    if (!node.is(Kind::assign) || node.begin > statement->begin || !is_inside(statement, node.parent))
      return !begins;
    for (const Node* target : node.list("targets")) {
      walk(*target, [&](const Node& part) {
        begins = begins || w.names.tree().text(part) == text;
        return !begins;
      });
    }
    return !begins;
  });
  return begins;
}

void write_counts_of(TorchWeaving& w, const TorchLoop& loop) {
  const BatchValues batch(w.names, loop, true);
  const auto sources = sources_of_steps(w.names, loop);
  const auto losses = losses_of(w.names, loop);
  walk(*loop.loop, [&](const Node& node) {
    if (node.is_function() || node.is(Kind::lambda)) return false;
    if (!node.is(Kind::aug_assign) || !node.child("op")->is(Kind::add)) return true;
    const std::string_view text = w.names.tree().text(*node.child("target"));
    const Node* value = node.child("value");
    const bool is_loss = std::find(losses.begin(), losses.end(), text) != losses.end();
    if (is_loss || !sources.contains(text) || !batch.are_in(*value) || value->is(Kind::list)) return true;
    if (begins_in_batch(w, loop, &node, text)) return true;
    for (const Node* around = node.parent; around != loop.loop; around = around->parent) {
      if (around->is(Kind::if_) && batch.are_in(*around->child("test")))
        w.refuse(
            &node,
            "the learning rate depends on this count, which each process makes under its own condition; count without the condition");
    }
    w.counted.insert(&node);
    w.edits.insert(value->begin, sum_over_ranks(w, value) + "(");
    w.edits.insert(value->end, ")");
    w.edits.explain(node.line, std::string(text) + " counts the samples of all processes",
                    "the learning rate is computed from it");
    return true;
  });
}

}  // namespace

void write_counts(TorchWeaving& weaving) {
  for (const TorchLoop& loop : weaving.program.loops) {
    if (loop.trains && !weaving.dialect.choices().divide_epochs) write_counts_of(weaving, loop);
  }
}

}  // namespace telar::weave
