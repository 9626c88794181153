// In every step all processes exchange gradients: none may leave a training loop, or skip a step, alone.
#include <fmt/format.h>

#include <algorithm>

#include "telar/weave/torch/batch.h"
#include "telar/weave/torch/writer.h"

namespace telar::weave {

namespace {

constexpr const char* kOwnBatch =
    "whether a process continues depends on its own batch, and the others would wait for it forever; decide by something that all processes know, or after the epoch";

/// Whether a statement makes a part of a step that all processes must make together.
bool makes_step(const TorchWeaving& w, const Node* statement) {
  return reaches(w.names, statement, [&](const Node* call) {
    const Node* function = call->child("func");
    if (is_backward(call)) return true;
    if (!function->is(Kind::attribute) || function->text != "step") return false;
    const auto origins = w.names.origins(function->child("value"));
    return std::any_of(w.program.optimizers.begin(), w.program.optimizers.end(), [&](const auto& one) {
      return std::find(origins.begin(), origins.end(), one.call) != origins.end();
    });
  });
}

void check_exit(const TorchWeaving& w, const BatchValues& batch, const Node& exit, const Node* loop) {
  for (const Node* around = exit.parent; around != loop; around = around->parent) {
    if ((around->is(Kind::if_) || around->is(Kind::while_)) && batch.are_in(*around->child("test")))
      w.refuse(around->child("test"), kOwnBatch);
  }
}

/// `if loss > 0.5: loss.backward()`
void check_step(const TorchWeaving& w, const BatchValues& batch, const Node& branch) {
  if (!batch.are_in(*branch.child("test"))) return;
  for (const std::string_view field : {"body", "orelse"}) {
    for (const Node* statement : branch.list(field)) {
      if (makes_step(w, statement))
        w.refuse(
            branch.child("test"),
            "whether a process makes this step depends on its own batch, and the others would wait for it forever; decide by something that all processes know");
    }
  }
}

}  // namespace

void check_control_flow(const TorchWeaving& weaving) {
  for (const TorchLoop& loop : weaving.program.loops) {
    if (!loop.trains) continue;
    const BatchValues batch(weaving.names, loop, false);
    walk(*loop.loop, [&](const Node& node) {
      if (node.is_function() || node.is(Kind::lambda)) return false;
      const bool leaves = node.is(Kind::break_) || node.is(Kind::continue_) || node.is(Kind::return_);
      if (leaves) check_exit(weaving, batch, node, loop.loop);
      if (node.is(Kind::if_) || node.is(Kind::while_)) check_step(weaving, batch, node);
      return true;
    });
  }
}

}  // namespace telar::weave
