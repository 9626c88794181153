// The queries of names.h that follow values: what is called, and where it was created.
#include <fmt/format.h>

#include <algorithm>

#include "telar/weave/python/names.h"

namespace telar::weave {

namespace {

constexpr int kDeepestCalls = 60;

class Deeper {
 public:
  explicit Deeper(int& depth) : depth_(depth) { ++depth_; }
  ~Deeper() { --depth_; }
  Deeper(const Deeper&) = delete;
  Deeper& operator=(const Deeper&) = delete;
  bool too_deep() const { return depth_ > kDeepestCalls; }

 private:
  int& depth_;
};

bool returns_itself(std::string_view method) {
  static const std::unordered_set<std::string_view> names = {
      "to",       "cuda",  "cpu",  "half",           "float", "double",
      "bfloat16", "train", "eval", "requires_grad_", "apply", "to_empty"};
  return names.contains(method);
}

bool passes_through(const std::string& qualified) {
  static const std::unordered_set<std::string_view> names = {"torch.nn.DataParallel",
                                                             "torch.compile",
                                                             "torch.jit.script",
                                                             "enumerate",
                                                             "tqdm.tqdm",
                                                             "tqdm.auto.tqdm",
                                                             "tqdm.notebook.tqdm",
                                                             "tqdm.std.tqdm",
                                                             "iter",
                                                             "torch.nn.SyncBatchNorm.convert_sync_batchnorm"};
  return names.contains(qualified);
}

/// For a value with more origins than this (tables in generated code), only the first ones are used.
constexpr size_t kMostOrigins = 200;

void add(std::vector<const Node*>& found, std::span<const Node* const> more) {
  for (const Node* node : more) {
    if (found.size() >= kMostOrigins) return;
    if (std::find(found.begin(), found.end(), node) == found.end()) found.push_back(node);
  }
}

void add(std::vector<const Node*>& found, const Node* node) { add(found, std::span(&node, 1)); }

}  // namespace

std::string Names::qualified(const Node* expression) const {
  const Deeper deeper(depth_);
  if (expression == nullptr || deeper.too_deep()) return {};
  const bool of_module = expression->is(Kind::attribute) && modules_.size() > 1 &&
                         !module_path(expression->child("value")).empty();
  if (expression->is(Kind::attribute) && !of_module) {
    const std::string base = qualified(expression->child("value"));
    return base.empty() ? std::string() : canonical(fmt::format("{}.{}", base, expression->text));
  }
  if (!expression->is(Kind::name) && !of_module) return {};
  const int where = place(expression);
  if (where < 0 && of_module) return {};
  if (where < 0) {
    for (const auto& [importer, module] : star_imports_) {
      if (importer != module_of(expression)) continue;
      if (module.starts_with("torch") || module.find("keras") != std::string::npos) {
        const bool builtin = expression->text == "print" || expression->text == "open" ||
                             expression->text == "enumerate" || expression->text == "len" ||
                             expression->text == "range";
        if (!builtin) return canonical(fmt::format("{}.{}", module, expression->text));
      }
    }
    return std::string(expression->text);
  }
  const Place& held = places_[static_cast<size_t>(where)];
  if (!held.module.empty()) return {};
  if (!held.imported.empty()) return canonical(held.imported);
  if (held.values.size() != 1 || held.values[0].part >= 0 || held.values[0].element) return {};
  const Node* value = held.values[0].node;
  return value->is(Kind::name) || value->is(Kind::attribute) ? qualified(value) : std::string();
}

const Node* Names::partial_of(const Node* call) const {
  const Node* function = call->child("func");
  if (!function->is(Kind::name) && !function->is(Kind::attribute)) return nullptr;
  const auto& held = values(place(function));
  if (held.size() != 1 || held[0].part >= 0 || !held[0].node->is(Kind::call)) return nullptr;
  return qualified(held[0].node->child("func")) == "functools.partial" ? held[0].node : nullptr;
}

const std::string& Names::callee(const Node* call) const {
  const auto [at, is_new] = callees_.try_emplace(call);
  if (is_new) at->second = find_callee(call);
  return at->second;
}

std::string Names::find_callee(const Node* call) const {
  if (const Node* partial = partial_of(call)) {
    const auto& arguments = partial->list("args");
    return arguments.empty() ? std::string() : qualified(arguments[0]);
  }
  return qualified(call->child("func"));
}

const Node* Names::keyword(const Node* call, std::string_view name) const {
  for (const Node* given : call->list("keywords")) {
    if (given->text == name) return given;
  }
  for (const Node* given : call->list("keywords")) {
    if (!given->text.empty()) continue;
    for (const Node* origin : origins(given->child("value"))) {
      if (origin->is(Kind::call) && qualified(origin->child("func")) == "dict") {
        if (const Node* found = keyword(origin, name)) return found;
      }
    }
  }
  if (const Node* partial = partial_of(call)) return keyword(partial, name);
  return nullptr;
}

const Node* Names::argument(const Node* call, std::string_view name, int position) const {
  if (const Node* given = keyword(call, name)) return given->child("value");
  for (const Node* given : call->list("keywords")) {
    if (!given->text.empty()) continue;
    for (const Node* origin : origins(given->child("value"))) {
      if (!origin->is(Kind::dict)) continue;
      const auto& keys = origin->list("keys");
      for (size_t i = 0; i < keys.size(); ++i) {
        if (keys[i] != nullptr && keys[i]->is_string() && keys[i]->text == name)
          return origin->list("values")[i];
      }
    }
  }
  if (position < 0) return nullptr;
  std::vector<Node*> given;
  if (const Node* partial = partial_of(call)) {
    const Nodes first = partial->list("args");
    if (!first.empty()) given.assign(first.begin() + 1, first.end());
  }
  const Nodes own = call->list("args");
  given.insert(given.end(), own.begin(), own.end());
  for (const Node* one : given) {
    if (one->is(Kind::starred)) return nullptr;
  }
  return static_cast<size_t>(position) < given.size() ? given[static_cast<size_t>(position)] : nullptr;
}

const Node* Names::method(const Node* class_def, std::string_view name) const {
  const Deeper deeper(depth_);
  if (deeper.too_deep()) return nullptr;
  for (const Node* statement : class_def->list("body")) {
    if (statement->is_function() && statement->text == name) return statement;
  }
  for (const Node* base : class_def->list("bases")) {
    const Node* found = definition(base);
    if (found == nullptr || !found->is(Kind::class_def) || found == class_def) continue;
    if (const Node* inherited = method(found, name)) return inherited;
  }
  return nullptr;
}

bool Names::derives(const Node* class_def, const std::vector<std::string_view>& wanted) const {
  const Deeper deeper(depth_);
  if (deeper.too_deep()) return false;
  for (const Node* base : class_def->list("bases")) {
    const std::string name = qualified(base);
    if (std::find(wanted.begin(), wanted.end(), name) != wanted.end()) return true;
    const Node* found = definition(base);
    if (found != nullptr && found->is(Kind::class_def) && found != class_def && derives(found, wanted))
      return true;
  }
  return false;
}

const Node* Names::definition(const Node* expression) const {
  const Deeper deeper(depth_);
  if (expression == nullptr || deeper.too_deep()) return nullptr;
  const bool of_module = expression->is(Kind::attribute) && modules_.size() > 1 &&
                         !module_path(expression->child("value")).empty();
  if (expression->is(Kind::attribute) && !of_module) {
    if (const Node* owner = owner_class(expression->child("value"))) return method(owner, expression->text);
    const Node* receiver = expression->child("value");
    if (receiver->is(Kind::call) && qualified(receiver->child("func")) == "super") {
      const Node* own = class_of(expression);
      for (const Node* base : own != nullptr ? own->list("bases") : Nodes()) {
        const Node* found = definition(base);
        if (found != nullptr && found->is(Kind::class_def) && found != own)
          return method(found, expression->text);
      }
    }
    return nullptr;
  }
  if (!expression->is(Kind::name) && !expression->is(Kind::alias) && !of_module) return nullptr;
  const int where = place(expression);
  if (where < 0) return nullptr;
  constexpr int kDefinition = -3;  // not a part of a tuple
  const Answer found = answered_once(of_place(where, kDefinition), [&] {
    std::vector<const Node*> definitions;
    for (const Value& value : values(where)) {
      if (value.node->is_function() || value.node->is(Kind::class_def)) {
        add(definitions, value.node);
      } else if ((value.node->is(Kind::name) || value.node->is(Kind::alias)) && value.part < 0 &&
                 !value.element) {
        if (const Node* other = definition(value.node)) add(definitions, other);
      }
    }
    return definitions;
  });
  return found.size() == 1 ? found[0] : nullptr;
}

const Node* Names::called_function(const Node* call) const {
  const Node* function = call->child("func");
  const Node* found = definition(function);
  if (found != nullptr && found->is(Kind::class_def)) return method(found, "__init__");
  // A callable object.
  if (found == nullptr && has_call_methods_ && (function->is(Kind::name) || function->is(Kind::attribute))) {
    if (const Node* owner = owner_class(function)) return method(owner, "__call__");
  }
  return found;
}

Names::Answer Names::kept(const std::vector<const Node*>& nodes) const {
  const Node** const first = std::pmr::polymorphic_allocator<const Node*>(&memory_).allocate(nodes.size());
  std::copy(nodes.begin(), nodes.end(), first);
  return {first, nodes.size()};
}

template <typename Compute>
Names::Answer Names::answered_once(const Question& question, const Compute& compute) const {
  if (const auto known = origin_memo_.find(question); known != origin_memo_.end()) return known->second;
  if (const auto known = on_the_way_.find(question); known != on_the_way_.end()) return known->second;
  if (std::find(in_progress_.begin(), in_progress_.end(), question) != in_progress_.end()) {
    cut_ = true;
    return {};
  }
  in_progress_.push_back(question);
  const Answer found = kept(compute());
  in_progress_.pop_back();
  if (!in_progress_.empty()) return on_the_way_[question] = found;
  if (!cut_) origin_memo_.merge(on_the_way_);
  on_the_way_.clear();
  cut_ = false;
  return origin_memo_[question] = found;
}

/// The class of the program of which an expression is an instance.
const Node* Names::owner_class(const Node* expression) const {
  if (expression == nullptr) return nullptr;
  constexpr int kOwner = -2;  // not a part of a tuple
  // Most expressions are `self` and the like: many expressions for one place.
  const int where = place(expression);
  const Question question = where >= 0 ? of_place(where, kOwner) : of_node(expression, kOwner);
  const Answer owners = answered_once(question, [&] {
    std::vector<const Node*> found;
    for (const Node* origin : origins(expression)) {
      const Node* candidate = origin->is(Kind::class_def) ? origin : nullptr;
      // Classes are called by their names. A called attribute is a method, unless it belongs to a module.
      const Node* function = origin->is(Kind::call) ? origin->child("func") : nullptr;
      if (function != nullptr &&
          (function->is(Kind::name) || (function->is(Kind::attribute) && modules_.size() > 1 &&
                                        !module_path(function->child("value")).empty())))
        candidate = definition(function);
      if (candidate != nullptr && candidate->is(Kind::class_def)) add(found, candidate);
    }
    return found;
  });
  return owners.empty() ? nullptr : owners.back();
}

/// The container of which a loop's variable is an element: `for a, b in zip(list, other)`.
Value Names::element_of(const Value& value) const {
  const Nodes given = value.node->is(Kind::call) ? value.node->list("args") : Nodes{};
  const std::string callee = given.empty() ? "" : qualified(value.node->child("func"));
  const auto part = static_cast<size_t>(std::max(value.part, 0));
  if (callee == "zip" && value.part >= 0 && part < given.size()) return {given[part], -1, true};
  if (callee == "enumerate" && value.part == 1) return {given[0], -1, true};
  return value;
}

Names::Answer Names::place_origins(int where, int part) const {
  return answered_once(of_place(where, part), [&] {
    std::vector<const Node*> found;
    const Node* own = scope(where);
    if (part < 0 && own->is_function() && own->parent != nullptr && own->parent->is(Kind::class_def)) {
      const auto& parameters = own->child("args")->list("args");
      if (!parameters.empty() && parameters[0]->text == name(where)) found.push_back(own->parent);
    }
    for (const Value& value : values(where)) {
      if (value.augmented) continue;
      if (part >= 0) {
        if (value.part < 0 && !value.element) add(found, origins(value.node, part));
      } else if (value.element) {
        // An element of a display, also through zip(…) and enumerate(…).
        const Value within = element_of(value);
        for (const Node* origin : origins(within.node)) {
          if (!origin->is(Kind::list) && !origin->is(Kind::tuple)) continue;
          for (const Node* one : origin->list("elts")) add(found, origins(one, within.part));
        }
      } else {
        add(found, origins(value.node, value.part));
      }
    }
    return found;
  });
}

/// The origins of the values that a function returns.
Names::Answer Names::return_origins(const Node* function, int part) const {
  return answered_once(of_node(function, part), [&] {
    std::vector<const Node*> found;
    walk(*function, [&](const Node& node) {
      if (&node != function && (node.is_function() || node.is(Kind::lambda) || node.is(Kind::class_def)))
        return false;
      if (node.is(Kind::return_) && node.child("value") != nullptr)
        add(found, origins(node.child("value"), part));
      return true;
    });
    return found;
  });
}

void Names::call_origins(const Node* call, int part, std::vector<const Node*>& found) const {
  const Node* function = call->child("func");
  const Node* target = definition(function);
  if (target != nullptr && target->is_function()) {
    add(found, return_origins(target, part));
    if (!found.empty()) return;
  }
  const auto& arguments = call->list("args");
  if (!arguments.empty() && passes_through(qualified(function)))
    return add(found, origins(arguments[0], part));
  if (function->is(Kind::attribute) && returns_itself(function->text) && qualified(function).empty()) {
    const std::vector<const Node*> same = origins(function->child("value"), part);
    if (!same.empty()) return add(found, same);
  }
  add(found, call);
}

/// The entries of a table that are places, in the order of their names.
std::vector<int> Names::entries_of(int table) const {
  const std::string prefix = name(table) + "[";
  std::vector<int> found;
  for (const int entry : entries_) {
    if (scope(entry) == scope(table) && name(entry).starts_with(prefix)) found.push_back(entry);
  }
  std::sort(found.begin(), found.end(), [&](int a, int b) { return name(a) < name(b); });
  return found;
}

/// The origins of a display's entry for a constant key, or of all entries.
void Names::add_entries(const Node& display, const Node& key, std::vector<const Node*>& found) const {
  const auto& keys = display.list("keys");
  for (size_t i = 0; i < keys.size(); ++i) {
    const bool other =
        key.is_string() && keys[i] != nullptr && keys[i]->is_string() && keys[i]->text != key.text;
    if (!other) add(found, origins(display.list("values")[i]));
  }
}

/// The origins of any entry of a table, as in loaders[phase]. A table can contain its own entries: `x =
/// [x[i], x[j]]`.
Names::Answer Names::entry_origins(const Node* subscript) const {
  return answered_once(of_node(subscript, -1), [&] {
    std::vector<const Node*> found;
    const int table = place(subscript->child("value"));
    for (const int entry : entries_of(table)) add(found, place_origins(entry, -1));
    for (const Node* made : place_origins(table, -1)) {
      if (made->is(Kind::dict_comp)) add(found, origins(made->child("value")));
      if (made->is(Kind::list_comp)) add(found, origins(made->child("elt")));
      if (made->is(Kind::dict)) add_entries(*made, *subscript->child("slice"), found);
      if (!made->is(Kind::list) && !made->is(Kind::tuple)) continue;
      for (const Node* one : made->list("elts")) add(found, origins(one));
    }
    return found;
  });
}

std::vector<const Node*> Names::origins(const Node* expression, int part) const {
  const Deeper deeper(depth_);
  std::vector<const Node*> found;
  if (deeper.too_deep()) cut_ = true;
  if (expression == nullptr || deeper.too_deep()) return found;
  switch (expression->kind) {
    case Kind::alias:
    case Kind::name:
    case Kind::attribute:
    case Kind::subscript: {
      const int where = place(expression);
      const bool of_table =
          where < 0 && expression->is(Kind::subscript) && place(expression->child("value")) >= 0;
      const Answer answer = where >= 0 ? place_origins(where, part)
                            : of_table ? entry_origins(expression)
                                       : Answer();
      // An entry of a table that a function returns.
      const bool unknown = answer.empty() && where >= 0 && expression->is(Kind::subscript);
      const Answer entry =
          unknown && place(expression->child("value")) >= 0 ? entry_origins(expression) : answer;
      return {entry.begin(), entry.end()};
    }
    case Kind::if_exp:
      add(found, origins(expression->child("body"), part));
      add(found, origins(expression->child("orelse"), part));
      return found;
    case Kind::bool_op:
      for (const Node* one : expression->list("values")) add(found, origins(one, part));
      return found;
    case Kind::named_expr: return origins(expression->child("value"), part);
    case Kind::tuple:
    case Kind::list: {
      const auto& parts = expression->list("elts");
      if (part >= 0 && static_cast<size_t>(part) < parts.size())
        return origins(parts[static_cast<size_t>(part)]);
      return {expression};
    }
    case Kind::list_comp:
    case Kind::generator:
      if (part >= 0) return origins(expression->child("elt"));
      return {expression};
    case Kind::call: call_origins(expression, part, found); return found;
    default: return {expression};
  }
}

}  // namespace telar::weave
