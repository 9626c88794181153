#include "telar/weave/dialect.h"

#include <algorithm>

namespace telar::weave {

namespace {

bool binds_tightly(const Node& expression) {
  return expression.is(Kind::name) || expression.is(Kind::attribute) || expression.is(Kind::constant) ||
         expression.is(Kind::call) || expression.is(Kind::subscript);
}

bool is_import(const Node& statement) {
  return statement.is(Kind::import) || statement.is(Kind::import_from);
}

}  // namespace

std::string times(const Tree& tree, const Node& expression, const std::string& factor) {
  const std::string text(tree.text(expression));
  return (binds_tightly(expression) ? text : "(" + text + ")") + " * " + factor;
}

std::string divided(const Tree& tree, const Node& expression, const std::string& divisor) {
  const std::string text(tree.text(expression));
  return (binds_tightly(expression) ? text : "(" + text + ")") + " // " + divisor;
}

std::vector<std::string> lines(const std::string& text) {
  std::vector<std::string> found;
  size_t at = 0;
  while (at < text.size()) {
    const size_t end = std::min(text.find('\n', at), text.size());
    found.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return found;
}

Dialect::Dialect(const Names& names, Edits& edits, Choices choices)
    : names_(names),
      edits_(edits),
      choices_(choices),
      module_(names.fresh(is_horovod()         ? "hvd"
                          : is_tf_distribute() ? "strategy"
                                               : "dist")) {}

std::string Dialect::is_first(const Node* at) {
  use(at);
  return is_tf_distribute() ? names_.fresh("is_chief") : rank(at) + " == 0";
}

std::string Dialect::is_other(const Node* at) {
  use(at);
  return is_tf_distribute() ? "not " + names_.fresh("is_chief") : rank(at) + " != 0";
}

std::string Dialect::rank(const Node* at) {
  use(at);
  return module_ + (is_horovod() ? ".rank()" : ".get_rank()");
}

std::string Dialect::size(const Node* at) {
  use(at);
  if (is_tf_distribute()) return module_ + ".num_replicas_in_sync";
  return module_ + (is_horovod() ? ".size()" : ".get_world_size()");
}

std::string Dialect::local_rank(const Node* at) {
  use(at);
  return is_horovod() ? module_ + ".local_rank()" : "int(" + module_name("os") + ".environ[\"LOCAL_RANK\"])";
}

std::string Dialect::barrier(const Node* at) {
  use(at);
  return barrier_.empty() ? module_ + ".barrier()" : barrier_;
}

std::string Dialect::module_name(const std::string& qualified) {
  const Node* root = names_.tree().root();
  for (const Node* statement : root->list("body")) {
    if (!statement->is(Kind::import)) continue;
    for (const Node* alias : statement->list("names")) {
      if (alias->text == qualified && !alias->as_name.empty()) return alias->as_name;
      if (alias->text == qualified && qualified.find('.') == std::string::npos) return qualified;
    }
  }
  if (names_.is_used(qualified) && qualified.find('.') == std::string::npos) {
    std::string other = names_.fresh(qualified + "_");
    import("import " + qualified + " as " + other);
    return other;
  }
  import("import " + qualified);
  return qualified;
}

void Dialect::function(const std::vector<std::string>& text) {
  if (std::find(functions_.begin(), functions_.end(), text) == functions_.end()) functions_.push_back(text);
}

void Dialect::at_start(const std::vector<std::string>& text) {
  for (const std::string& line : text) start_.push_back(line);
}

/// `if __name__ == "__main__":` with a block of its own.
const Node* Dialect::main_guard() const {
  for (const Node* statement : names_.tree().root()->list("body")) {
    if (!statement->is(Kind::if_) || !statement->child("test")->is(Kind::compare)) continue;
    const Node* left = statement->child("test")->child("left");
    if (!left->is(Kind::name) || left->text != "__name__" || !statement->list("orelse").empty()) continue;
    return statement->list("body").front()->line > statement->line ? statement : nullptr;
  }
  return nullptr;
}

/// Where statements of the module itself (not those in functions) first need the target's module.
size_t Dialect::first_use_of_module() const {
  size_t first = std::string::npos;
  const Node* guard = main_guard();
  const auto runs_on_import = [&](const Node* node) {
    return function_of(node) == nullptr && class_of(node) == nullptr &&
           (guard == nullptr || !is_inside(node, guard));
  };
  for (const Node* use : uses_) {
    if (runs_on_import(use)) first = std::min(first, statement_of(use)->begin);
  }
  // Functions with uses that the module's own statements call.
  for (const Node* call : names_.calls()) {
    if (!runs_on_import(call) || names_.called_function(call) == nullptr) continue;
    first = std::min(first, statement_of(call)->begin);
  }
  return first;
}

const Node* Dialect::last_import(size_t before) const {
  const Node* last = nullptr;
  for (const Node* statement : names_.tree().root()->list("body")) {
    if (statement->begin >= before) break;
    bool only_imports = is_import(*statement);
    if (statement->is(Kind::try_) || statement->is(Kind::if_)) {
      only_imports = !statement->list("body").empty() && is_import(*statement->list("body").front());
    }
    if (only_imports) last = statement;
  }
  return last;
}

void Dialect::write(const std::vector<std::string>& start, const std::vector<std::string>& finish) {
  const Node* guard = main_guard();
  const size_t first_use = first_use_of_module();
  const Node* anchor = last_import(first_use);
  if (anchor == nullptr) {
    throw Refusal{1, "the imports",
                  "put the imports at the top of the file, before the first statement that does something"};
  }
  std::vector<std::string> begin = start;
  begin.insert(begin.end(), start_.begin(), start_.end());
  const bool in_guard = guard != nullptr && first_use == std::string::npos;

  std::vector<std::string> top(imports_.begin(), imports_.end());
  // `import x` before `from x import y`, each sorted, as the set has them by accident of the alphabet.
  std::stable_partition(top.begin(), top.end(),
                        [](const std::string& line) { return line.starts_with("import "); });
  for (const auto& text : functions_) {
    top.insert(top.end(), {"", ""});
    top.insert(top.end(), text.begin(), text.end());
  }
  if (!in_guard) {
    top.insert(top.end(), functions_.empty() ? 1 : 2, "");
    top.insert(top.end(), begin.begin(), begin.end());
  }
  edits_.after(*anchor, top);
  if (in_guard) edits_.before(*guard->list("body").front(), begin);
  if (finish.empty()) return;
  const Node* last = in_guard ? guard->list("body").back() : names_.tree().root()->list("body").back();
  if (!in_guard && guard == last) last = guard->list("body").back();
  edits_.after(*last, finish);
}

}  // namespace telar::weave
