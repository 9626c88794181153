#include "telar/weave/write/dialect.h"

#include <algorithm>
#include <utility>

#include "telar/weave/torch/program.h"

namespace telar::weave {

namespace {

bool binds_tightly(const Node& expression) {
  return expression.is(Kind::name) || expression.is(Kind::attribute) || expression.is(Kind::constant) ||
         expression.is(Kind::call) || expression.is(Kind::subscript);
}

std::string operand(const Tree& tree, const Node& expression) {
  const std::string text(tree.text(expression));
  return binds_tightly(expression) ? text : "(" + text + ")";
}

bool is_import(const Node& statement) {
  return statement.is(Kind::import) || statement.is(Kind::import_from);
}

/// Whether a statement is `if __name__ == "__main__":`, in either order.
bool asks_for_main(const Node& statement) {
  if (!statement.is(Kind::if_) || !statement.child("test")->is(Kind::compare)) return false;
  const Node* test = statement.child("test");
  const auto is_name = [](const Node* side) { return side->is(Kind::name) && side->text == "__name__"; };
  return is_name(test->child("left")) || is_name(test->list("comparators").front());
}

/// sys.exit(…), exit(), SystemExit(…).
bool ends_program(const Names& names, const Node& expression) {
  const std::string name =
      names.qualified(expression.is(Kind::call) ? expression.child("func") : &expression);
  return name == "sys.exit" || name == "exit" || name == "quit" || name == "SystemExit";
}

}  // namespace

std::string times(const Tree& tree, const Node& expression, const std::string& factor) {
  return operand(tree, expression) + " * " + factor;
}

std::string divided(const Tree& tree, const Node& expression, const std::string& divisor) {
  return operand(tree, expression) + " // " + divisor;
}

std::string quotient(const Tree& tree, const Node& expression, const std::string& divisor) {
  return operand(tree, expression) + " / " + divisor;
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
      choices_(std::move(choices)),
      module_(names.fresh(is_horovod()                       ? "hvd"
                          : is_tf_distribute()               ? "strategy"
                          : choices_.target == Target::telar ? "tt"
                                                             : "dist")),
      main_guard_(find_main_guard()) {}

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
  if (is_horovod()) return module_ + ".local_rank()";
  needed_in(at).local_rank = true;
  return "int(" + module_name("os", at) + ".environ[\"LOCAL_RANK\"])";
}

std::string Dialect::barrier(const Node* at) {
  use(at);
  return barrier_ ? barrier_(at) : module_ + ".barrier()";
}

std::string Dialect::module_name(const std::string& qualified, const Node* at) {
  for (const Node* statement : module_of(at)->list("body")) {
    if (!statement->is(Kind::import)) continue;
    for (const Node* alias : statement->list("names")) {
      if (alias->text != qualified) continue;
      if (!alias->as_name.empty()) {
        std::string name(alias->as_name);
        rely_on(statement, "import " + qualified + " as " + name, at);
        return name;
      }
      if (qualified.find('.') == std::string::npos) {
        rely_on(statement, "import " + qualified, at);
        return qualified;
      }
    }
  }
  if (names_.is_used_in(module_of(at), qualified) && qualified.find('.') == std::string::npos) {
    std::string other = names_.fresh(qualified + "_");
    import("import " + qualified + " as " + other, at);
    return other;
  }
  import("import " + qualified, at);
  return qualified;
}

void Dialect::rely_on(const Node* statement, const std::string& line, const Node* at) {
  if (module_of(at) == script()) relied_on_.emplace_back(statement, line);
}

void Dialect::function(const std::vector<std::string>& text, const Node* at) {
  auto& functions = needed_in(at).functions;
  if (std::find(functions.begin(), functions.end(), text) == functions.end()) functions.push_back(text);
}

void Dialect::at_start(const std::vector<std::string>& text) {
  for (const std::string& line : text) start_.push_back(line);
}

/// `if __name__ == "__main__":` with its own block.
const Node* Dialect::find_main_guard() const {
  for (const Node* statement : script()->list("body")) {
    if (!asks_for_main(*statement) || !statement->list("orelse").empty()) continue;
    return statement->list("body").front()->line > statement->line ? statement : nullptr;
  }
  return nullptr;
}

bool Dialect::runs_on_import(const Node* node) const {
  return function_of(node) == nullptr && class_of(node) == nullptr &&
         (main_guard_ == nullptr || !is_inside(node, main_guard_));
}

bool Dialect::are_seeded(const std::vector<const Node*>& draws, const std::vector<const Node*>& seeds) {
  bool all = draws.empty() || !seeds.empty();
  for (const Node* draw : draws) {
    const bool seeded = std::any_of(seeds.begin(), seeds.end(), [&](const Node* seed) {
      return !runs_on_import(draw) || (runs_on_import(seed) && seed->begin < draw->begin);
    });
    if (seeded) continue;
    all = false;
    if (module_of(draw) != script() && runs_on_import(draw)) early_.push_back(draw);
  }
  return all;
}

/// Where the statements of a module outside functions first need the target's module.
size_t Dialect::first_use_of_module(const Node* module) const {
  size_t first = std::string::npos;
  for (const Node* use : uses_) {
    if (module_of(use) == module && runs_on_import(use)) first = std::min(first, statement_of(use)->begin);
  }
  for (const Node* draw : early_) {
    if (module_of(draw) == module) first = std::min(first, statement_of(draw)->begin);
  }
  // The module's own statements may call functions that need it.
  for (const Node* call : names_.calls()) {
    if (module_of(call) != module || !runs_on_import(call) || names_.called_function(call) == nullptr)
      continue;
    first = std::min(first, statement_of(call)->begin);
  }
  return first;
}

/// The script's first import of a file whose code needs the initialised processes.
size_t Dialect::first_import_with_use() const {
  std::set<const Node*> running;
  for (const Part& part : names_.tree().parts()) {
    if (part.root != script() && first_use_of_module(part.root) != std::string::npos)
      running.insert(part.root);
  }
  size_t first = std::string::npos;
  if (running.empty()) return first;
  // Files follow those that they import.
  for (const auto& [name, statement] : names_.imports()) {
    const auto loaded = names_.imported_modules(statement);
    if (std::none_of(loaded.begin(), loaded.end(), [&](const Node* one) { return running.contains(one); }))
      continue;
    if (module_of(statement) != script()) {
      running.insert(module_of(statement));
    } else if (runs_on_import(statement)) {
      first = std::min(first, statement->begin);
    }
  }
  return first;
}

const Node* Dialect::last_import(const Node* module, size_t before) const {
  const Node* last = nullptr;
  for (const Node* statement : module->list("body")) {
    if (statement->begin >= before || statement->end > before) break;
    bool only_imports = is_import(*statement);
    if (statement->is(Kind::try_) || (statement->is(Kind::if_) && !asks_for_main(*statement))) {
      only_imports = !statement->list("body").empty() && is_import(*statement->list("body").front());
    }
    if (only_imports) last = statement;
  }
  return last;
}

std::vector<std::string> Dialect::top_of(const Needed& needed) const {
  std::vector<std::string> top(needed.imports.begin(), needed.imports.end());
  // `import x` before `from x import y`; the set has sorted both.
  std::stable_partition(top.begin(), top.end(),
                        [](const std::string& line) { return line.starts_with("import "); });
  for (const auto& text : needed.functions) {
    top.insert(top.end(), {"", ""});
    top.insert(top.end(), text.begin(), text.end());
  }
  return top;
}

/// Writes what the edits of an imported file need, after its imports or before its first statement. Where the
/// file is run by itself, no script has started the processes.
void Dialect::write_imported(const Node* module, const Needed& needed,
                             const std::vector<std::string>& alone) {
  const std::vector<std::string> top = top_of(needed);
  const bool uses =
      std::any_of(uses_.begin(), uses_.end(), [&](const Node* use) { return module_of(use) == module; });
  const Tree& tree = names_.tree();
  const int block = tree.part_at(module->begin).main_block;
  if (uses && block > 0 && !alone.empty()) {
    const size_t at = tree.line_begin(block);
    const std::string& source = tree.source();
    const std::string indent = source.substr(at, source.find_first_not_of(" \t", at) - at);
    std::string text;
    if (needed.local_rank)
      text += indent + module_name("os", module) + ".environ.setdefault(\"LOCAL_RANK\", \"0\")" +
              tree.newline(at);
    for (const std::string& line : alone) text += indent + line + tree.newline(at);
    edits_.insert(at, text);
    edits_.explain(block, alone.front(), "the file can still be run by itself, as one process");
  }
  if (const Node* anchor = last_import(module, first_use_of_module(module)))
    return edits_.after(*anchor, top);
  for (const Node* statement : module->list("body")) {
    const bool is_docstring = statement->is(Kind::expr) && statement->child("value")->is_string();
    if (is_docstring) continue;
    std::vector<std::string> text = top;
    text.insert(text.end(), 2, "");
    return edits_.before(*statement, text);
  }
}

void Dialect::write(const std::string& import_line, const std::vector<std::string>& start,
                    const std::vector<std::string>& finish, const std::vector<std::string>& alone) {
  for (const Node* use : uses_) {
    if (import_line.empty() && module_of(use) != script()) {
      throw Refusal{
          statement_of(use)->line, std::string(names_.tree().text(*statement_of(use))),
          "this needs the strategy, which the script creates; with several files, only the script can be woven for tf.distribute: use --target horovod"};
    }
    if (!import_line.empty()) import(import_line, use);
  }
  const bool starts = !start.empty() || !start_.empty();
  if (!import_line.empty() && starts) import(import_line, script());
  for (const auto& [module, needed] : needed_) {
    if (module != script()) write_imported(module, needed, alone);
  }
  const Node* guard = main_guard_;
  const size_t first_use = std::min(first_use_of_module(script()), first_import_with_use());
  const Node* anchor = last_import(script(), first_use);
  std::vector<std::string> begin = start;
  begin.insert(begin.end(), start_.begin(), start_.end());
  const bool in_guard = guard != nullptr && first_use == std::string::npos;
  // Imports that follow the first statement which needs the initialisation.
  for (const auto& [statement, line] : relied_on_) {
    if (statement->begin > first_use && first_use != std::string::npos) import(line, script());
  }
  const Needed& needed = needed_in(script());
  std::vector<std::string> top = top_of(needed);
  if (!in_guard && starts) {
    top.insert(top.end(), needed.functions.empty() ? 1 : 2, "");
    top.insert(top.end(), begin.begin(), begin.end());
  }
  if (top.empty()) {
    // Only files that the script imports have edits.
  } else if (anchor != nullptr) {
    edits_.after(*anchor, top);
  } else {
    write_first(first_use, top);
  }
  if (in_guard && starts) edits_.before(*guard->list("body").front(), begin);
  if (finish.empty()) return;
  const Node* last = in_guard ? guard->list("body").back() : script()->list("body").back();
  if (!in_guard && guard == last) last = guard->list("body").back();
  write_last(*last, finish);
}

/// Writes the end after the last statement. If that statement exits with the result of a call
/// (`sys.exit(main())`), the end goes between the call and the exit.
void Dialect::write_last(const Node& last, const std::vector<std::string>& finish) {
  const Node* end = last.is(Kind::expr)    ? last.child("value")
                    : last.is(Kind::raise) ? last.child("exc")
                                           : nullptr;
  if (end == nullptr || !ends_program(names_, *end)) return edits_.after(last, finish);
  const Node* code = end->is(Kind::call) && !end->list("args").empty() ? end->list("args").front() : nullptr;
  if (code == nullptr || !code->is(Kind::call)) return edits_.before(last, finish);
  const std::string name = names_.fresh("status");
  const std::string_view text = names_.tree().text(last);
  std::vector<std::string> lines = finish;
  lines.push_back(std::string(text.substr(0, code->begin - last.begin)) + name +
                  std::string(text.substr(code->end - last.begin)));
  edits_.replace(last.begin, code->begin, name + " = ");
  edits_.replace(code->end, last.end, "");
  edits_.after(last, lines);
  edits_.explain(last.line, name + " = …", "the processes end their group before the script exits");
}

/// Writes what the script's first import needs before it.
void Dialect::write_first(size_t first_use, const std::vector<std::string>& top) {
  for (const Node* statement : script()->list("body")) {
    if (statement->begin != first_use || !is_import(*statement)) continue;
    std::vector<std::string> text = top;
    text.emplace_back();
    return edits_.before(*statement, text);
  }
  throw Refusal{names_.tree().main().first_line, "the imports",
                "put the imports at the top of the file, before the first statement that does something"};
}

}  // namespace telar::weave
