#include "telar/weave/torch/writer.h"

#include <algorithm>

#include "telar/weave/write/outputs.h"
#include "telar/weave/write/reads.h"

namespace telar::weave {

namespace {

bool communicates(const TorchWeaving& w, const Node* call) {
  const auto exchanges = [&](const Node* inner) { return w.calls_model(inner) || w.agreed.contains(inner); };
  return reaches(w.names, call, exchanges) || exchanges(call);
}

}  // namespace

bool is_in_worker(const Names& names, const Node* call, int depth) {
  const Node* owner = class_of(call);
  const Node* function = function_of(call);
  if (function == nullptr) return false;
  if (owner != nullptr &&
      names.derives(owner, {"torch.utils.data.Dataset", "torch.utils.data.IterableDataset"}))
    return function->text != "__init__";
  if (depth == 0) return false;
  return std::any_of(names.tree().nodes().begin(), names.tree().nodes().end(), [&](const Node& node) {
    const bool mentions = (node.is(Kind::name) || node.is(Kind::attribute)) && !node.store &&
                          node.text == function->text && !is_inside(&node, function);
    return mentions && names.definition(&node) == function && is_in_worker(names, &node, depth - 1);
  });
}

bool TorchWeaving::calls_model(const Node* call) const {
  const Node* function = call->child("func");
  if (!function->is(Kind::name) && !function->is(Kind::attribute) && !function->is(Kind::subscript))
    return false;
  if (names.definition(function) != nullptr) return false;
  for (const Node* origin : names.origins(function)) {
    for (const TorchModel& model : program.models) {
      if (std::find(model.origins.begin(), model.origins.end(), origin) != model.origins.end()) return true;
    }
  }
  return false;
}

const std::set<const Node*>& TorchWeaving::called_in(const Node* loop) const {
  const auto known = called.find(loop);
  if (known != called.end()) return known->second;
  std::set<const Node*>& functions = called[loop];
  reaches(names, loop, [&](const Node* call) {
    if (const Node* function = names.called_function(call)) functions.insert(function);
    return false;
  });
  return functions;
}

void write_torch(const Names& names, const TorchProgram& program, const Choices& asked, Edits& edits) {
  Choices choices = asked;
  // Of a step without a loader, the processes always divide the samples.
  choices.keep_global_batch = asked.keep_global_batch || !program.shares.empty();
  Dialect dialect(names, edits, choices);
  TorchWeaving weaving{names, program, edits, dialect, {}, uses_gpu(names)};
  check_control_flow(weaving);
  check_loader_uses(weaving);
  if (!program.shares.empty()) check_shares(weaving);
  write_devices(weaving);
  // First, so that a dataset that leaves its loader's statement is created behind the barrier, too.
  write_preparation(weaving);
  write_sets(weaving);
  write_loaders(weaving);
  write_epochs(weaving);
  write_seeds(weaving);
  if (choices.divide_epochs) write_divided(weaving);
  write_rates(weaving);
  write_models(weaving);
  write_buffers(weaving);
  if (choices.warmup_epochs > 0) write_warm_up(weaving);
  write_counts(weaving);
  if (!program.shares.empty()) write_shares(weaving);
  write_metrics(weaving);
  write_last_values(weaving);
  write_meters(weaving);
  write_step_logs(weaving);
  if (choices.share_evaluation) write_evaluation(weaving);
  const auto is_prepared = [&](const Node* call) {
    return std::any_of(weaving.prepared.begin(), weaving.prepared.end(),
                       [&](const Node* statement) { return is_inside(call, statement); });
  };
  const bool saves = std::any_of(names.calls().begin(), names.calls().end(),
                                 [&](const Node* call) { return names.callee(call) == "torch.save"; });
  write_reads(names, edits, dialect, [&](const Node* call) {
    return saves && names.callee(call) == "torch.load" && !is_prepared(call) && !is_in_worker(names, call);
  });
  write_outputs(
      names, edits, dialect, [&](const Node* call) { return communicates(weaving, call); }, is_prepared);

  const std::string torch = dialect.module_name("torch", dialect.script());
  const std::string& module = dialect.module();
  std::string import;
  std::vector<std::string> start;
  std::vector<std::string> finish;
  std::vector<std::string> alone;
  if (dialect.is_horovod()) {
    import = "import horovod.torch as " + module;
    start = {module + ".init()", "if " + torch + ".cuda.is_available():",
             "    " + torch + ".cuda.set_device(" + module + ".local_rank())"};
    alone = {module + ".init()"};
    edits.explain(0, module + ".init()", "Horovod starts; each process takes one GPU");
  } else {
    import = "import torch.distributed as " + module;
    if (weaving.gpu) {
      start = {module + ".init_process_group(\"nccl\" if " + torch + ".cuda.is_available() else \"gloo\")",
               "if " + torch + ".cuda.is_available():",
               "    " + torch + ".cuda.set_device(int(" + dialect.module_name("os", dialect.script()) +
                   ".environ[\"LOCAL_RANK\"]))"};
    } else {
      start = {module + ".init_process_group(\"gloo\")"};
    }
    alone = {module + ".init_process_group(\"gloo\", store=" + module +
             ".HashStore(), rank=0, world_size=1)"};
    // Gloo's threads keep Python tensors slightly longer than a reduction takes. A process that ends before
    // they release them is aborted, or waits forever (one of twelve runs of a short script, with PyTorch 1.13
    // and 2.11). The barrier gives them time to release them.
    finish = {module + ".barrier()", module + ".destroy_process_group()"};
    edits.explain(0, start[0], "the processes that torchrun starts find each other; each takes one GPU");
    edits.explain(0, finish[0],
                  "no process ends while the others, or its own threads, still use exchanged data");
  }
  dialect.write(import, start, finish, alone);
}

}  // namespace telar::weave
