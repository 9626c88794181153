#include "telar/weave/torch_writer.h"

#include <algorithm>

#include "telar/weave/outputs.h"

namespace telar::weave {

namespace {

/// Files that rank 0 has just written must be whole before the others read them.
void write_reads(TorchWeaving& w) {
  bool saves = false;
  for (const Node* call : w.names.calls()) saves = saves || w.names.callee(call) == "torch.save";
  if (!saves) return;
  std::vector<const Node*> done;
  for (const Node* call : w.names.calls()) {
    if (w.names.callee(call) != "torch.load") continue;
    const Node* statement = statement_of(call);
    // `if os.path.exists(path): … torch.load(path)` asks for the file already.
    for (const Node* around = statement->parent; around != nullptr && !around->is_function();
         around = around->parent) {
      if (!around->is(Kind::if_)) continue;
      bool asks = false;
      walk(*around->child("test"), [&](const Node& node) {
        const std::string callee = node.is(Kind::call) ? w.names.callee(&node) : "";
        asks = asks || callee.starts_with("os.path.") ||
               (node.is(Kind::call) && node.child("func")->is(Kind::attribute) &&
                (node.child("func")->text == "exists" || node.child("func")->text == "is_file"));
        return true;
      });
      if (asks) statement = around;
    }
    if (std::find(done.begin(), done.end(), statement) != done.end()) continue;
    done.push_back(statement);
    w.edits.before(*statement, {w.dialect.barrier(call)});
    w.edits.explain(call->line, "all processes meet before the file is read",
                    "rank 0 may still be writing it");
  }
}

bool communicates(const TorchWeaving& w, const Node* call) {
  return reaches(w.names, call, [&](const Node* inner) { return w.calls_model(inner); }) ||
         w.calls_model(call);
}

}  // namespace

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
  // A loop over shared samples ends in a sum over all processes, so a function with one needs all of them.
  return false;
}

void write_torch(const Names& names, const TorchProgram& program, const Choices& choices, Edits& edits) {
  Dialect dialect(names, edits, choices);
  TorchWeaving weaving{names, program, edits, dialect};
  check_control_flow(weaving);
  write_devices(weaving);
  write_loaders(weaving);
  write_epochs(weaving);
  write_rates(weaving);
  write_models(weaving);
  write_metrics(weaving);
  write_reads(weaving);
  write_outputs(names, edits, dialect, [&](const Node* call) { return communicates(weaving, call); });

  const std::string torch = dialect.module_name("torch");
  const std::string& module = dialect.module();
  std::vector<std::string> start;
  std::vector<std::string> finish;
  if (dialect.is_horovod()) {
    dialect.import("import horovod.torch as " + module);
    start = {module + ".init()", "if " + torch + ".cuda.is_available():",
             "    " + torch + ".cuda.set_device(" + module + ".local_rank())"};
    edits.explain(1, module + ".init()", "Horovod starts; each process takes one GPU");
  } else {
    dialect.import("import torch.distributed as " + module);
    start = {
        module + ".init_process_group(\"nccl\" if " + torch + ".cuda.is_available() else \"gloo\")",
        "if " + torch + ".cuda.is_available():",
        "    " + torch + ".cuda.set_device(int(" + dialect.module_name("os") + ".environ[\"LOCAL_RANK\"]))"};
    finish = {module + ".destroy_process_group()"};
    edits.explain(1, start[0], "the processes that torchrun starts find each other; each takes one GPU");
  }
  dialect.write(start, finish);
}

}  // namespace telar::weave
