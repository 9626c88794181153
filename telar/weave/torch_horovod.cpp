// Horovod averages in the optimizer, which is wrapped; weights and optimizer state start as rank 0's.
#include <set>

#include "telar/weave/torch_writer.h"

namespace telar::weave {

namespace {

/// Gradients are averaged while backward runs; they must all have arrived before they are clipped.
void write_clipping(TorchWeaving& w, const Node* call) {
  const Node* statement = statement_of(call);
  const auto& block = block_of(statement);
  for (const Node* other : block) {
    if (other->begin <= statement->end || !other->is(Kind::expr) || !other->child("value")->is(Kind::call))
      continue;
    const Node* function = other->child("value")->child("func");
    if (!function->is(Kind::attribute) || function->text != "step") continue;
    for (const Node* origin : w.names.origins(function->child("value"))) {
      for (const TorchOptimizer& optimizer : w.program.optimizers) {
        if (optimizer.call != origin) continue;
        const std::string name = w.text(*function->child("value"));
        w.edits.before(*statement, {name + ".synchronize()"});
        w.edits.guard_with(*other, "with " + name + ".skip_synchronize():");
        w.edits.explain(call->line, name + ".synchronize()",
                        "the averages must be there before they are clipped");
        return;
      }
    }
  }
  w.refuse(
      call,
      "where the optimizer steps after this clipping is not clear; write optimizer.step() in the same block");
}

}  // namespace

void write_horovod(TorchWeaving& w) {
  const std::string hvd = w.dialect.module();
  std::set<int> places;
  for (const TorchOptimizer& optimizer : w.program.optimizers) {
    const Node* statement = statement_of(optimizer.call);
    if (!statement->is(Kind::assign) || statement->child("value") != optimizer.call) {
      w.refuse(optimizer.call, "keep the optimizer in a variable of its own");
    }
    const Node* target = statement->list("targets")[0];
    if (!places.empty() && !places.contains(w.names.place(target))) {
      w.refuse(optimizer.call, "several optimizers in one program are woven for DDP only: --target ddp");
    }
    places.insert(w.names.place(target));
    if (optimizer.name == "LBFGS")
      w.refuse(optimizer.call, "Horovod cannot average within LBFGS's search: --target ddp");
    const std::string name = w.text(*target);
    std::vector<std::string> text;
    for (const size_t model : optimizer.models) {
      text.push_back(hvd + ".broadcast_parameters(" + w.program.models[model].text +
                     ".state_dict(), root_rank=0)");
    }
    text.push_back(hvd + ".broadcast_optimizer_state(" + name + ", root_rank=0)");
    const std::string named =
        optimizer.models.size() == 1
            ? ", named_parameters=" + w.program.models[optimizer.models[0]].text + ".named_parameters()"
            : std::string();
    text.push_back(name + " = " + hvd + ".DistributedOptimizer(" + name + named + ")");
    w.dialect.use(statement);
    w.edits.after(*statement, text);
    w.edits.explain(statement->line, text.back(),
                    "averages the gradients before each step; all start with rank 0's state");
  }
  // What Horovod does in another order than one process does must be written by hand.
  for (const Node* call : w.names.calls()) {
    const Node* function = call->child("func");
    const std::string callee = w.names.callee(call);
    if (callee.starts_with("torch.nn.utils.clip_grad")) write_clipping(w, call);
    if (callee == "torch.nn.DataParallel")
      w.refuse(call, "remove nn.DataParallel: each process has one device");
    if (callee.ends_with("GradScaler"))
      w.refuse(call, "mixed precision with a GradScaler is woven for DDP only: --target ddp");
    if (function->is(Kind::attribute) && function->text == "step" &&
        statement_of(call)->parent->is(Kind::if_)) {
      for (const TorchLoop& loop : w.program.loops) {
        if (!loop.trains || !is_inside(call, loop.loop)) continue;
        for (const Node* origin : w.names.origins(function->child("value"))) {
          for (const TorchOptimizer& optimizer : w.program.optimizers) {
            if (optimizer.call == origin) {
              w.refuse(call,
                       "gradients that are summed over several batches are woven for DDP only: --target ddp");
            }
          }
        }
      }
    }
  }
}

}  // namespace telar::weave
