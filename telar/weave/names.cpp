#include "telar/weave/names.h"

#include <algorithm>
#include <array>

namespace telar::weave {

namespace {

constexpr int kUnknown = -2;  // in name_places_
constexpr int kDeepest = 60;  // of chains of variables, calls and returns that are followed

bool makes_scope(const Node& node) {
  return node.is_function() || node.is(Kind::lambda) || node.is(Kind::class_def) || node.is(Kind::module) ||
         node.is(Kind::list_comp) || node.is(Kind::set_comp) || node.is(Kind::dict_comp) ||
         node.is(Kind::generator);
}

/// Decorators, defaults and annotations of a function belong to the scope around it.
bool is_outside_of_its_function(const Node& child) {
  return child.role == "decorator_list" || child.role == "returns" || child.role == "bases" ||
         child.role == "keywords";
}

const std::vector<Value> kNoValues;

}  // namespace

std::string canonical(std::string name) {
  static const std::array<std::pair<std::string_view, std::string_view>, 12> prefixes = {{
      {"torch.utils.data.dataloader.", "torch.utils.data."},
      {"torch.utils.data.dataset.", "torch.utils.data."},
      {"torch.utils.data.sampler.", "torch.utils.data."},
      {"torch.nn.parallel.DataParallel", "torch.nn.DataParallel"},
      {"torch.nn.modules.module.Module", "torch.nn.Module"},
      {"torch.utils.tensorboard.writer.", "torch.utils.tensorboard."},
      {"tensorflow.python.keras.", "keras."},
      {"tensorflow.compat.v1.keras.", "keras."},
      {"tensorflow.compat.v2.keras.", "keras."},
      {"tensorflow.keras.", "keras."},
      {"tf_keras.", "keras."},
      {"tensorflow.compat.v2.", "tensorflow."},
  }};
  for (const auto& [from, to] : prefixes) {
    if (name.starts_with(from)) {
      name.replace(0, from.size(), to);
      break;
    }
  }
  if (name == "tensorflow.keras" || name == "tensorflow.compat.v1.keras") return "keras";
  // torch.optim.sgd.SGD and keras.optimizers.legacy.SGD are what their last part says.
  const std::string_view optim = "torch.optim.";
  if (name.starts_with(optim) && !name.starts_with("torch.optim.lr_scheduler") &&
      !name.starts_with("torch.optim.swa_utils")) {
    const size_t last = name.rfind('.');
    if (last + 1 > optim.size()) name = std::string(optim) + name.substr(last + 1);
  }
  const std::string_view legacy = "keras.optimizers.";
  if (name.starts_with(legacy) && name.find(".schedules.") == std::string::npos) {
    const size_t last = name.rfind('.');
    if (last + 1 > legacy.size() && name.substr(last) != ".schedules")
      name = std::string(legacy) + name.substr(last + 1);
  }
  return name;
}

Names::Names(const Tree& tree) : tree_(tree) {
  for (const Part& part : tree.parts()) modules_[part.path] = part.root;
  collect_bindings();
  link_imports();
  name_places_.assign(tree.nodes().size(), kUnknown);
  bind_assignments();
  // Arguments reach parameters only once it is known whose method a call runs, which arguments may tell.
  for (int round = 0; round < 4; ++round) {
    origin_memo_.clear();
    if (!bind_arguments()) break;
  }
  origin_memo_.clear();
  collect_mentions();
}

const Node* Names::scope_of(const Node* node) const {
  const Node* child = node;
  for (const Node* around = node->parent; around != nullptr; child = around, around = around->parent) {
    if (around->is(Kind::arguments) && (child->role == "defaults" || child->role == "kw_defaults")) {
      // Over the function: its own scope is not that of its defaults.
      child = around;
      around = around->parent;
      continue;
    }
    if (makes_scope(*around) && !is_outside_of_its_function(*child)) return around;
  }
  return module_of(node);
}

int Names::place_of(const Node* scope, const std::string& name) const {
  const auto found = by_name_.find({scope, name});
  return found == by_name_.end() ? -1 : found->second;
}

int Names::make_place(const Node* scope, const std::string& name) {
  const auto [at, is_new] = by_name_.try_emplace({scope, name}, static_cast<int>(places_.size()));
  if (is_new) places_.push_back({scope, name, {}, {}, {}});
  return at->second;
}

int Names::resolve(const Node* at, const std::string& name) const {
  const Node* scope = at->is(Kind::module) ? at : scope_of(at);
  const Node* first = scope;
  while (scope != nullptr) {
    const auto globals = global_.find(scope);
    if (globals != global_.end() && globals->second.contains(name)) break;
    const auto bound = bound_.find(scope);
    const bool visible = scope == first || !scope->is(Kind::class_def);
    if (visible && bound != bound_.end() && bound->second.contains(name)) return place_of(scope, name);
    if (scope->is(Kind::module)) break;
    scope = scope_of(scope);
  }
  const int found = place_of(module_of(at), name);
  return found >= 0 ? found : star_place(module_of(at), name);
}

void Names::collect_bindings() {
  const auto bind = [&](const Node* at, const std::string& name) {
    const Node* scope = scope_of(at);
    const auto globals = global_.find(scope);
    if (globals != global_.end() && globals->second.contains(name)) scope = module_of(at);
    ++times_bound_[{scope, name}];
    bound_[scope].insert(name);
    make_place(scope, name);
    names_in_[module_of(at)].insert(name);
  };
  for (const Node& node : tree_.nodes()) {
    if (node.is(Kind::global)) {
      for (const std::string& name : node.global_names) {
        global_[scope_of(&node)].insert(name);
        bound_[module_of(&node)].insert(name);
        make_place(module_of(&node), name);
      }
    }
  }
  for (const Node& node : tree_.nodes()) {
    switch (node.kind) {
      case Kind::name:
        names_in_[module_of(&node)].insert(node.text);
        if (node.store) bind(&node, node.text);
        break;
      case Kind::function_def:
        has_call_methods_ = has_call_methods_ || node.text == "__call__";
        bind(&node, node.text);
        break;
      case Kind::arg:
      case Kind::async_function_def:
      case Kind::class_def: bind(&node, node.text); break;
      case Kind::except_handler:
        if (!node.text.empty()) bind(&node, node.text);
        break;
      case Kind::import:
      case Kind::import_from: bind_import(node); break;
      case Kind::call: calls_.push_back(&node); break;
      default: break;
    }
  }
  std::sort(calls_.begin(), calls_.end(), [](const Node* a, const Node* b) { return a->begin < b->begin; });
}

void Names::bind_import(const Node& statement) {
  const Node* scope = scope_of(&statement);
  const std::string module = std::string(static_cast<size_t>(statement.level), '.') + statement.text;
  for (const Node* alias : statement.list("names")) {
    const bool from = statement.is(Kind::import_from);
    const std::string whole =
        from ? module + (module.ends_with('.') || module.empty() ? "" : ".") + alias->text : alias->text;
    imports_.emplace_back(from ? module : whole, &statement);
    if (from) imports_.emplace_back(whole, &statement);
    if (bind_own_import(statement, alias, scope)) continue;
    if (alias->text == "*") {
      star_imports_.emplace_back(module_of(&statement), module);
      continue;
    }
    const std::string first = alias->text.substr(0, alias->text.find('.'));
    const std::string name = !alias->as_name.empty() ? alias->as_name : from ? alias->text : first;
    bound_[scope].insert(name);
    names_in_[module_of(&statement)].insert(name);
    Place& place = places_[static_cast<size_t>(make_place(scope, name))];
    place.imported = !alias->as_name.empty() || from ? whole : first;
  }
}

bool Names::add_value(int place, const Value& value) {
  if (place < 0 || value.node == nullptr) return false;
  std::vector<Value>& values = places_[static_cast<size_t>(place)].values;
  if (std::find(values.begin(), values.end(), value) != values.end()) return false;
  values.push_back(value);
  return true;
}

void Names::bind_target(const Node* target, const Value& value) {
  if (target == nullptr) return;
  if (target->is(Kind::tuple) || target->is(Kind::list)) {
    const auto& parts = target->list("elts");
    const bool display = value.node != nullptr && !value.element && value.part < 0 &&
                         (value.node->is(Kind::tuple) || value.node->is(Kind::list)) &&
                         value.node->list("elts").size() == parts.size();
    for (size_t i = 0; i < parts.size(); ++i) {
      if (display) {
        bind_target(parts[i], {value.node->list("elts")[i]});
      } else {
        bind_target(parts[i], {value.node, static_cast<int>(i), value.element, value.augmented});
      }
    }
    return;
  }
  if (target->is(Kind::starred)) return bind_target(target->child("value"), {value.node, -1, true});
  int where = place(target);
  if (where < 0 && target->is(Kind::attribute)) {
    if (const Node* owner = owner_class(target->child("value"))) {
      where = make_place(root_class(owner), "." + target->text);
    }
  }
  if (where < 0 && target->is(Kind::subscript)) {
    const Node* key = target->child("slice");
    const int table = place(target->child("value"));
    if (table >= 0 && key != nullptr && key->is_string()) {
      where = make_place(scope(table), name(table) + "[" + key->text + "]");
    }
  }
  add_value(where, value);
}

void Names::bind_statement(const Node& node) {
  switch (node.kind) {
    case Kind::assign:
      for (const Node* target : node.list("targets")) bind_target(target, {node.child("value")});
      break;
    case Kind::ann_assign:
      if (node.child("value") != nullptr) bind_target(node.child("target"), {node.child("value")});
      break;
    case Kind::aug_assign: bind_target(node.child("target"), {node.child("value"), -1, false, true}); break;
    case Kind::named_expr: bind_target(node.child("target"), {node.child("value")}); break;
    case Kind::for_:
    case Kind::async_for:
    case Kind::comprehension: bind_target(node.child("target"), {node.child("iter"), -1, true}); break;
    case Kind::with_item: bind_target(node.child("optional_vars"), {node.child("context_expr")}); break;
    case Kind::function_def:
    case Kind::async_function_def:
    case Kind::class_def: add_value(place_of(scope_of(&node), node.text), {&node}); break;
    case Kind::arguments: {
      const auto& parameters = node.list("args");
      const auto& defaults = node.list("defaults");
      const size_t first = parameters.size() - std::min(defaults.size(), parameters.size());
      for (size_t i = first; i < parameters.size(); ++i) {
        add_value(place_of(scope_of(parameters[i]), parameters[i]->text), {defaults[i - first]});
      }
      const auto& only = node.list("kwonlyargs");
      const auto& only_defaults = node.list("kw_defaults");
      for (size_t i = 0; i < std::min(only.size(), only_defaults.size()); ++i) {
        add_value(place_of(scope_of(only[i]), only[i]->text), {only_defaults[i]});
      }
      break;
    }
    default: break;
  }
}

void Names::bind_assignments() {
  for (const Node& node : tree_.nodes()) bind_statement(node);
  // Attributes of objects whose class is known only through a variable.
  for (const Node& node : tree_.nodes()) {
    if (node.is(Kind::assign)) bind_statement(node);
  }
  // The entries of a dictionary display are places of their own: loaders = {"train": …, "test": …}.
  for (size_t p = 0, before = places_.size(); p < before; ++p) {
    const std::vector<Value> values = places_[p].values;
    for (const Value& value : values) {
      if (!value.node->is(Kind::dict) || value.part >= 0 || value.element) continue;
      const auto& keys = value.node->list("keys");
      for (size_t i = 0; i < keys.size(); ++i) {
        if (keys[i] == nullptr || !keys[i]->is_string()) continue;
        add_value(make_place(places_[p].scope, places_[p].name + "[" + keys[i]->text + "]"),
                  {value.node->list("values")[i]});
      }
    }
  }
}

bool Names::bind_arguments() {
  bool changed = false;
  callers_.clear();
  for (const Node* call : calls_) {
    const Node* function = called_function(call);
    if (function == nullptr) continue;
    callers_[function].push_back(call);
    const Node* arguments = function->child("args");
    std::vector<Node*> parameters = arguments->list("posonlyargs");
    parameters.insert(parameters.end(), arguments->list("args").begin(), arguments->list("args").end());
    bool bound = class_of(function) == function->parent && function->parent->is(Kind::class_def);
    for (const Node* decorator : function->list("decorator_list"))
      bound = bound && qualified(decorator) != "staticmethod";
    size_t next = bound ? 1 : 0;
    for (const Node* given : call->list("args")) {
      if (given->is(Kind::starred) || next >= parameters.size()) break;
      changed |= add_value(place_of(function, parameters[next++]->text), {given});
    }
    for (const Node* given : call->list("keywords")) {
      if (given->text.empty() || !bound_[function].contains(given->text)) continue;
      changed |= add_value(place_of(function, given->text), {given->child("value")});
    }
  }
  return changed;
}

void Names::collect_mentions() {
  for (const Node& node : tree_.nodes()) {
    if (!node.is(Kind::name) && !node.is(Kind::attribute) && !node.is(Kind::subscript)) continue;
    const int where = place(&node);
    if (where >= 0) places_[static_cast<size_t>(where)].mentions.push_back(&node);
  }
  for (Place& place : places_) {
    std::sort(place.mentions.begin(), place.mentions.end(),
              [](const Node* a, const Node* b) { return a->begin < b->begin; });
  }
}

int Names::place(const Node* expression) const {
  if (expression == nullptr) return -1;
  if (expression->is(Kind::name)) {
    int& known = name_places_[expression->number];
    if (known == kUnknown) known = resolve(expression, expression->text);
    return known;
  }
  if (expression->is(Kind::arg)) return place_of(scope_of(expression), expression->text);
  if (expression->is(Kind::alias)) {
    const auto found = alias_places_.find(expression);
    return found == alias_places_.end() ? -1 : found->second;
  }
  if (expression->is(Kind::attribute)) {
    if (modules_.size() > 1) {
      const std::string path = module_path(expression->child("value"));
      const Node* module = path.empty() ? nullptr : own_module(path);
      if (module != nullptr) {
        const int found = place_of(module, expression->text);
        return found >= 0 ? found : star_place(module, expression->text);
      }
    }
    const Node* owner = owner_class(expression->child("value"));
    return owner == nullptr ? -1 : place_of(root_class(owner), "." + expression->text);
  }
  if (expression->is(Kind::subscript)) {
    const Node* key = expression->child("slice");
    const int table = place(expression->child("value"));
    if (table >= 0 && key != nullptr && key->is_string())
      return place_of(scope(table), name(table) + "[" + key->text + "]");
  }
  return -1;
}

const Node* Names::root_class(const Node* class_def) const {
  for (int steps = 0; steps < kDeepest; ++steps) {
    const Node* base = nullptr;
    for (const Node* candidate : class_def->list("bases")) {
      const Node* found = definition(candidate);
      if (found != nullptr && found->is(Kind::class_def) && found != class_def) base = found;
    }
    if (base == nullptr) break;
    class_def = base;
  }
  return class_def;
}

const std::vector<Value>& Names::values(int place) const {
  return place < 0 ? kNoValues : places_[static_cast<size_t>(place)].values;
}

std::vector<const Node*> Names::mentions(int place) const {
  return place < 0 ? std::vector<const Node*>() : places_[static_cast<size_t>(place)].mentions;
}

bool Names::is_parameter(int place) const {
  const Node* where = scope(place);
  if (!where->is_function()) return false;
  const Node* arguments = where->child("args");
  for (const std::string_view field : {"posonlyargs", "args", "kwonlyargs"}) {
    for (const Node* parameter : arguments->list(field)) {
      if (parameter->text == name(place)) return true;
    }
  }
  return false;
}

}  // namespace telar::weave
