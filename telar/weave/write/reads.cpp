#include "telar/weave/write/reads.h"

#include <algorithm>

namespace telar::weave {

void write_reads(const Names& names, Edits& edits, Dialect& dialect,
                 const std::function<bool(const Node*)>& saves,
                 const std::function<bool(const Node*)>& reads) {
  if (std::none_of(names.calls().begin(), names.calls().end(), saves)) return;
  std::vector<const Node*> done;
  for (const Node* call : names.calls()) {
    if (!reads(call)) continue;
    const Node* statement = statement_of(call);
    // `if os.path.exists(path): … torch.load(path)`: the condition already depends on the file.
    for (const Node* around = statement->parent; around != nullptr && !around->is_function();
         around = around->parent) {
      if (!around->is(Kind::if_)) continue;
      bool asks = false;
      walk(*around->child("test"), [&](const Node& node) {
        const std::string callee = node.is(Kind::call) ? names.callee(&node) : "";
        asks = asks || callee.starts_with("os.path.") ||
               (node.is(Kind::call) && node.child("func")->is(Kind::attribute) &&
                (node.child("func")->text == "exists" || node.child("func")->text == "is_file"));
        return true;
      });
      if (asks) statement = around;
    }
    if (std::find(done.begin(), done.end(), statement) != done.end()) continue;
    done.push_back(statement);
    edits.before(*statement, {dialect.barrier(call)});
    edits.explain(call->line, "all processes wait for each other before the file is read",
                  "rank 0 may still be writing it");
  }
}

}  // namespace telar::weave
