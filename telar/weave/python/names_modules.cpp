// The names of a program's files, and the names that one file imports from another.
#include <algorithm>

#include "telar/weave/project.h"
#include "telar/weave/python/names.h"

namespace telar::weave {

const Node* Names::own_module(const std::string& path) const {
  const std::string file = module_file(path, [&](const std::string& one) { return modules_.contains(one); });
  return file.empty() ? nullptr : modules_.at(file);
}

/// Whether a path is a file of the program or a folder that contains one.
bool Names::is_own_module(const std::string& path) const {
  if (own_module(path) != nullptr) return true;
  const auto below = modules_.lower_bound(path + "/");
  return !path.empty() && below != modules_.end() && below->first.starts_with(path + "/");
}

/// Binds an import of a module of the program; returns false if the module is not part of it.
bool Names::bind_own_import(const Node& statement, const Node* alias, const Node* scope) {
  if (modules_.size() < 2) return false;
  const bool from = statement.is(Kind::import_from);
  const std::string importer = tree_.part_at(statement.begin).path;
  const std::string dotted(from ? statement.text : alias->text);
  for (const std::string& path : module_paths(importer, tree_.main().path, dotted, statement.level)) {
    if (!is_own_module(path)) continue;
    const Node* module = own_module(path);
    if (alias->text == "*") {
      if (module != nullptr) own_star_imports_.emplace_back(module_of(&statement), module);
      return true;
    }
    std::string_view name = alias->as_name.empty() ? alias->text : alias->as_name;
    std::string stands_for = path;
    if (from) {
      const std::string below = joined(path, std::string(alias->text));
      const bool is_variable = module != nullptr && place_of(module, alias->text) >= 0;
      stands_for = is_own_module(below) && !is_variable ? below : "";
    } else if (alias->as_name.empty()) {
      // `import a.b` binds a.
      name = alias->text.substr(0, alias->text.find('.'));
      const size_t deeper = static_cast<size_t>(std::count(alias->text.begin(), alias->text.end(), '.'));
      for (size_t i = 0; i < deeper; ++i) stands_for = stands_for.substr(0, stands_for.rfind('/'));
    }
    if (from && stands_for.empty() && module == nullptr) return false;
    names_in_[module_of(&statement)].insert(name);
    const int where = make_place(scope, name);
    ++places_[static_cast<size_t>(where)].times_bound;
    if (!stands_for.empty()) {
      places_[static_cast<size_t>(where)].module = stands_for;
    } else {
      own_imports_.push_back({alias, scope, name, module});
    }
    return true;
  }
  return false;
}

/// A name that a file imports and does not bind otherwise shares the place of the exporting file. A name that
/// the file also assigns is a separate variable with that value.
void Names::link_imports() {
  for (const Import& one : own_imports_) {
    int target = place_of(one.module, one.alias->text);
    if (target < 0) target = star_place(one.module, one.alias->text);
    if (target < 0) continue;  // created at run time
    alias_places_[one.alias] = target;
    const int own = place_of(one.scope, one.name);
    if (places_[static_cast<size_t>(own)].times_bound == 1) {
      by_name_[{one.scope, one.name}] = target;
    } else {
      add_value(own, {one.alias});
    }
  }
}

int Names::star_place(const Node* module, std::string_view name) const {
  for (const auto& [importer, imported] : own_star_imports_) {
    if (importer != module || imported == module) continue;
    const int found = place_of(imported, name);
    if (found >= 0) return found;
  }
  return -1;
}

/// The path of the module that an expression refers to; empty if it is not a module of the program.
std::string Names::module_path(const Node* expression) const {
  if (expression->is(Kind::name)) {
    const int where = resolve(expression, expression->text);
    return where < 0 ? std::string() : places_[static_cast<size_t>(where)].module;
  }
  if (!expression->is(Kind::attribute)) return {};
  const std::string base = module_path(expression->child("value"));
  if (base.empty()) return {};
  if (const Node* module = own_module(base)) {
    const int where = place_of(module, expression->text);
    if (where >= 0) return places_[static_cast<size_t>(where)].module;
  }
  const std::string below = joined(base, std::string(expression->text));
  return is_own_module(below) ? below : std::string();
}

bool Names::means_the_same(const Node* expression, const Node* at) const {
  bool same = true;
  walk(*expression, [&](const Node& node) {
    if (node.is(Kind::name) && resolve(&node, node.text) != resolve(at, node.text)) same = false;
    return same;
  });
  return same;
}

std::vector<const Node*> Names::imported_modules(const Node* statement) const {
  std::vector<const Node*> found;
  const auto add = [&](const std::string& path) {
    for (size_t end = 0; end != std::string::npos;) {
      end = path.find('/', end + 1);
      const Node* module = own_module(path.substr(0, end));
      if (module != nullptr) found.push_back(module);
    }
  };
  const std::string importer = tree_.part_at(statement->begin).path;
  for (const Node* alias : statement->list("names")) {
    const bool from = statement->is(Kind::import_from);
    const std::string dotted(from ? statement->text : alias->text);
    for (const std::string& path : module_paths(importer, tree_.main().path, dotted, statement->level)) {
      if (!is_own_module(path)) continue;
      add(path);
      if (from) add(joined(path, std::string(alias->text)));
      break;
    }
  }
  return found;
}

bool Names::is_used(std::string_view name) const {
  return std::any_of(names_in_.begin(), names_in_.end(),
                     [&](const auto& one) { return one.second.contains(name); });
}

bool Names::is_used_in(const Node* module, std::string_view name) const {
  const auto found = names_in_.find(module);
  return found != names_in_.end() && found->second.contains(name);
}

std::string Names::fresh(std::string name) const {
  while (is_used(name)) name += "_";
  return name;
}

}  // namespace telar::weave
