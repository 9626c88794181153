// How values reach their places: bindings by statements, and arguments of calls.
#include <algorithm>

#include "telar/weave/python/names.h"

namespace telar::weave {

void Names::collect_bindings() {
  std::unordered_set<std::string_view>* names_here = nullptr;  // of the current module
  const auto bind = [&](const Node* at, std::string_view name) {
    const Node* scope = scope_of(at);
    const auto globals = global_.find(scope);
    if (globals != global_.end() && globals->second.contains(name)) scope = module_of(at);
    ++places_[static_cast<size_t>(make_place(scope, name))].times_bound;
    names_here->insert(name);
  };
  for (const Node& node : tree_.nodes()) {
    if (node.is(Kind::global)) {
      for (const std::string_view name : node.global_names) {
        global_[scope_of(&node)].insert(name);
        make_place(module_of(&node), name);
      }
    }
  }
  for (const Node& node : tree_.nodes()) {
    if (node.parent == nullptr) names_here = &names_in_[&node];
    switch (node.kind) {
      case Kind::name:
        if (node.store) {
          bind(&node, node.text);
        } else {
          names_here->insert(node.text);
        }
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
  const std::string module = std::string(static_cast<size_t>(statement.level), '.').append(statement.text);
  for (const Node* alias : statement.list("names")) {
    const bool from = statement.is(Kind::import_from);
    std::string whole = from ? module : std::string();
    if (!whole.empty() && !whole.ends_with('.')) whole += '.';
    whole += alias->text;
    imports_.emplace_back(from ? module : whole, &statement);
    if (from) imports_.emplace_back(whole, &statement);
    if (bind_own_import(statement, alias, scope)) continue;
    if (alias->text == "*") {
      star_imports_.emplace_back(module_of(&statement), module);
      continue;
    }
    const std::string_view first = alias->text.substr(0, alias->text.find('.'));
    const std::string_view name = !alias->as_name.empty() ? alias->as_name : from ? alias->text : first;
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
      where = make_place(root_class(owner), attribute_name(target->text));
    }
  }
  if (where < 0 && target->is(Kind::subscript)) {
    const Node* key = target->child("slice");
    const int table = place(target->child("value"));
    if (table >= 0 && key != nullptr && key->is_string()) {
      where = make_place(scope(table), entry_name(name(table), key->text));
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
  // Attributes of objects whose class is known only from a variable.
  for (const Node& node : tree_.nodes()) {
    if (node.is(Kind::assign)) bind_statement(node);
  }
  // The entries of a dictionary display are places: loaders = {"train": …, "test": …}.
  for (size_t p = 0, before = places_.size(); p < before; ++p) {
    const std::vector<Value> values = places_[p].values;
    for (const Value& value : values) {
      if (!value.node->is(Kind::dict) || value.part >= 0 || value.element) continue;
      const auto& keys = value.node->list("keys");
      for (size_t i = 0; i < keys.size(); ++i) {
        if (keys[i] == nullptr || !keys[i]->is_string()) continue;
        add_value(make_place(places_[p].scope, entry_name(places_[p].name, keys[i]->text)),
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
    const Nodes first_ones = arguments->list("posonlyargs");
    const Nodes other_ones = arguments->list("args");
    const size_t count = first_ones.size() + other_ones.size();
    const auto parameter = [&](size_t i) {
      return i < first_ones.size() ? first_ones[i] : other_ones[i - first_ones.size()];
    };
    bool bound = class_of(function) == function->parent && function->parent->is(Kind::class_def);
    for (const Node* decorator : function->list("decorator_list"))
      bound = bound && qualified(decorator) != "staticmethod";
    size_t next = bound ? 1 : 0;
    for (const Node* given : call->list("args")) {
      if (given->is(Kind::starred) || next >= count) break;
      changed |= add_value(place_of(function, parameter(next++)->text), {given});
    }
    const Node* table = arguments->child("kwarg");
    for (const Node* given : call->list("keywords")) {
      if (given->text.empty()) continue;
      int where = place_of(function, given->text);
      const bool is_named = where >= 0 && is_parameter(where);
      // An entry of **kwargs.
      if (!is_named && table != nullptr) where = make_place(function, entry_name(table->text, given->text));
      changed |= add_value(where, {given->child("value")});
    }
  }
  return changed;
}

}  // namespace telar::weave
