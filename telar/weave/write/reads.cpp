#include "telar/weave/write/reads.h"

#include <algorithm>
#include <iterator>
#include <unordered_map>
#include <unordered_set>

namespace telar::weave {

namespace {

/// The path that a call reads or writes; null if it does neither. `writes`: which of both is asked for.
const Node* path_of(const Names& names, const Node* call, bool writes) {
  static const std::unordered_map<std::string_view, int> writers = {
      {"numpy.save", 0}, {"numpy.savez", 0}, {"numpy.savetxt", 0}, {"torch.save", 1}};
  static const std::unordered_set<std::string_view> readers = {"numpy.load",         "numpy.loadtxt",
                                                               "pandas.read_csv",    "pandas.read_json",
                                                               "pandas.read_pickle", "PIL.Image.open"};
  const std::string& callee = names.callee(call);
  const Node* function = call->child("func");
  if (callee == "open" || callee == "io.open" || callee == "gzip.open") {
    const Node* mode = names.argument(call, "mode", 1);
    const bool to_write =
        mode != nullptr && mode->is_string() && mode->text.find_first_of("wax+") != std::string_view::npos;
    return to_write == writes ? names.argument(call, "file", 0) : nullptr;
  }
  if (writes && writers.contains(callee)) return names.argument(call, "f", writers.at(callee));
  if (!writes && readers.contains(callee)) return names.argument(call, "file", 0);
  if (!function->is(Kind::attribute) || !callee.empty()) return nullptr;
  const std::string_view method = function->text;
  if (writes && (method == "write_text" || method == "write_bytes")) return function->child("value");
  if (!writes && (method == "read_text" || method == "read_bytes")) return function->child("value");
  const bool table = method == "to_csv" || method == "to_json" || method == "to_pickle";
  return writes && table ? names.argument(call, "path", 0) : nullptr;
}

bool in_dataset(const Names& names, const Node* call) {
  const Node* owner = class_of(call);
  return owner != nullptr &&
         names.derives(
             owner, {"torch.utils.data.Dataset", "torch.utils.data.IterableDataset", "keras.utils.Sequence"});
}

/// The statements that read a file which the program also writes, by the same expression for its path.
std::vector<const Node*> reads_of_written(const Names& names) {
  std::unordered_set<std::string_view> written;
  for (const Node* call : names.calls()) {
    const Node* path = path_of(names, call, true);
    if (path != nullptr && !in_dataset(names, call)) written.insert(names.tree().text(*path));
  }
  std::vector<const Node*> found;
  for (const Node* call : names.calls()) {
    const Node* path = written.empty() ? nullptr : path_of(names, call, false);
    if (path != nullptr && written.contains(names.tree().text(*path)) && !in_dataset(names, call))
      found.push_back(call);
  }
  return found;
}

}  // namespace

void write_reads(const Names& names, Edits& edits, Dialect& dialect,
                 const std::function<bool(const Node*)>& reads) {
  std::vector<const Node*> calls = reads_of_written(names);
  std::copy_if(names.calls().begin(), names.calls().end(), std::back_inserter(calls), reads);
  std::vector<const Node*> done;
  for (const Node* call : calls) {
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
