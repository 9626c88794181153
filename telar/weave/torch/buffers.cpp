// The running statistics of batch norm, where each process keeps its own: under Horovod, and in a model that
// a step applies several times, whose buffers DDP must not broadcast in between. All processes evaluate with
// rank 0's; otherwise, what they decide by an evaluation (the rate, the end) would differ.
#include <algorithm>

#include "telar/weave/torch/writer.h"

namespace telar::weave {

namespace {

bool is_of(const TorchWeaving& w, const TorchModel& model, const Node* call) {
  if (!w.calls_model(call)) return false;
  const auto origins = w.names.origins(call->child("func"));
  return std::any_of(origins.begin(), origins.end(), [&](const Node* origin) {
    return std::find(model.origins.begin(), model.origins.end(), origin) != model.origins.end();
  });
}

/// Whether a model may have batch norm: the program creates such layers, or a library creates the model.
bool may_normalise(const TorchWeaving& w, const TorchModel& model) {
  const auto& calls = w.names.calls();
  return std::any_of(
             calls.begin(), calls.end(),
             [&](const Node* call) { return w.names.callee(call).find("BatchNorm") != std::string::npos; }) ||
         std::any_of(model.origins.begin(), model.origins.end(), [&](const Node* origin) {
           const std::string callee = origin->is(Kind::call) ? w.names.callee(origin) : "";
           return !callee.empty() && !callee.starts_with("torch.nn.") &&
                  w.names.definition(origin->child("func")) == nullptr;
         });
}

void write_buffers_of(TorchWeaving& w, const TorchModel& model) {
  bool evaluates = false;
  for (const Node* call : w.names.calls())
    evaluates = evaluates || (is_of(w, model, call) && !computes_gradients(w, call));
  if (!evaluates || !may_normalise(w, model)) return;
  for (const Node* loop : w.program.training_loops()) {
    std::vector<const Node*> applied;
    for (const Node* call : w.names.calls()) {
      if (is_inside(call, loop) && function_of(call) == function_of(loop) && is_of(w, model, call))
        applied.push_back(call);
    }
    if (applied.empty() || (applied.size() == 1 && !w.dialect.is_horovod())) continue;
    const std::string buffer = w.names.fresh("buffer");
    const std::string broadcast = w.dialect.is_horovod() ? ".broadcast_(" : ".broadcast(";
    w.dialect.use(loop);
    w.edits.after(*loop, {"for " + buffer + " in " + w.text(*applied.front()->child("func")) + ".buffers():",
                          "    " + w.dialect.module() + broadcast + buffer + ", 0)"});
    w.edits.explain(loop->line, "all processes take rank 0's running statistics",
                    "they evaluate the same model, so they decide the same");
  }
}

}  // namespace

void write_buffers(TorchWeaving& weaving) {
  for (const TorchModel& model : weaving.program.models) write_buffers_of(weaving, model);
}

}  // namespace telar::weave
