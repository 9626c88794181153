#include "telar/weave/python/names.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace telar::weave {

namespace {

constexpr int kUnknown = -2;  // in places_by_node_
constexpr int kDeepest = 60;  // greatest depth of chains of variables, calls and returns
constexpr int kShallow = 20;  // chains up to this depth are complete

bool makes_scope(const Node& node) {
  return node.is_function() || node.is(Kind::lambda) || node.is(Kind::class_def) || node.is(Kind::module) ||
         node.is(Kind::list_comp) || node.is(Kind::set_comp) || node.is(Kind::dict_comp) ||
         node.is(Kind::generator);
}

/// Decorators and the return annotation of a function, and bases and keywords of a class, belong to the scope
/// around it.
bool is_outside_of_its_function(const Node& child) {
  return child.role == "decorator_list" || child.role == "returns" || child.role == "bases" ||
         child.role == "keywords";
}

const std::vector<Value> kNoValues;
const std::vector<const Node*> kNoNodes;

}  // namespace

std::string canonical(std::string name) {
  static const std::array<std::pair<std::string_view, std::string_view>, 16> prefixes = {{
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
      {"tensorflow.optimizers.", "keras.optimizers."},
      {"tensorflow.losses.", "keras.losses."},
      {"tensorflow.metrics.", "keras.metrics."},
      {"keras.api._v2.keras.", "keras."},
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
  // For torch.optim.sgd.SGD and keras.optimizers.legacy.SGD, only the last part matters.
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
  find_scopes();
  for (const Part& part : tree.parts()) modules_[part.path] = part.root;
  collect_bindings();
  link_imports();
  places_by_node_.assign(tree.nodes().size(), kUnknown);
  bind_assignments();
  // Arguments reach parameters only when the class of a method's object is known, which may itself depend on
  // arguments.
  for (int round = 0; round < 4; ++round) {
    origin_memo_.clear();
    if (!bind_arguments()) break;
  }
  origin_memo_.clear();
  is_bound_ = true;
  collect_mentions();
}

/// Nodes follow their parents, so the scope of the parent is already known.
void Names::find_scopes() {
  scopes_.reserve(tree_.nodes().size());
  for (const Node& node : tree_.nodes()) {
    const Node* parent = node.parent;
    if (parent == nullptr) {
      scopes_.push_back(&node);
      continue;
    }
    // Default values belong to the scope around the function.
    const bool is_default =
        parent->is(Kind::arguments) && (node.role == "defaults" || node.role == "kw_defaults");
    if (is_default) parent = parent->parent;
    const bool is_inside = !is_default && makes_scope(*parent) && !is_outside_of_its_function(node);
    scopes_.push_back(is_inside ? parent : scopes_[parent->number]);
  }
}

int Names::place_of(const Node* scope, std::string_view name) const {
  const auto found = by_name_.find({scope, name});
  return found == by_name_.end() ? -1 : found->second;
}

int Names::make_place(const Node* scope, std::string_view name) {
  if (const int known = place_of(scope, name); known >= 0) return known;
  const auto number = static_cast<int>(places_.size());
  Place& place = places_.emplace_back();
  place.scope = scope;
  place.name = name;
  by_name_.emplace(ScopedName{scope, place.name}, number);
  if (name.ends_with(']')) entries_.push_back(number);
  return number;
}

/// Names of places that are not variables: an attribute of a class's instances, an entry of a dictionary.
std::string Names::attribute_name(std::string_view attribute) { return std::string(".").append(attribute); }

std::string Names::entry_name(std::string_view table, std::string_view key) {
  return fmt::format("{}[{}]", table, key);
}

int Names::resolve(const Node* at, std::string_view name) const {
  const Node* scope = at->is(Kind::module) ? at : scope_of(at);
  const Node* first = scope;
  for (; !scope->is(Kind::module); scope = scope_of(scope)) {
    const auto globals = global_.find(scope);
    if (globals != global_.end() && globals->second.contains(name)) break;
    if (scope != first && scope->is(Kind::class_def)) continue;
    if (const int found = place_of(scope, name); found >= 0) return found;
  }
  const Node* module = scope->is(Kind::module) ? scope : module_of(scope);
  const int found = place_of(module, name);
  return found >= 0 ? found : star_place(module, name);
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
  if (!expression->is(Kind::name) && !expression->is(Kind::attribute) && !expression->is(Kind::subscript))
    return find_place(expression);
  int& known = places_by_node_[expression->number];
  if (known != kUnknown) return known;
  // The class of an attribute's object may still change while names are being bound, or within a cycle.
  const bool is_sure = expression->is(Kind::name) || (is_bound_ && in_progress_.empty() && depth_ < kShallow);
  const int found = find_place(expression);
  if (is_sure) known = found;
  return found;
}

int Names::find_place(const Node* expression) const {
  switch (expression->kind) {
    case Kind::name: return resolve(expression, expression->text);
    case Kind::arg: return place_of(scope_of(expression), expression->text);
    case Kind::alias: {
      const auto found = alias_places_.find(expression);
      return found == alias_places_.end() ? -1 : found->second;
    }
    case Kind::attribute: {
      if (modules_.size() > 1) {
        const std::string path = module_path(expression->child("value"));
        const Node* module = path.empty() ? nullptr : own_module(path);
        if (module != nullptr) {
          const int found = place_of(module, expression->text);
          return found >= 0 ? found : star_place(module, expression->text);
        }
      }
      const Node* owner = owner_class(expression->child("value"));
      return owner == nullptr ? -1 : place_of(root_class(owner), attribute_name(expression->text));
    }
    case Kind::subscript: {
      const Node* key = expression->child("slice");
      const int table = place(expression->child("value"));
      if (table < 0 || key == nullptr || !key->is_string()) return -1;
      return place_of(scope(table), entry_name(name(table), key->text));
    }
    default: return -1;
  }
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

const std::vector<const Node*>& Names::calls_of(const Node* function) const {
  const auto found = callers_.find(function);
  return found == callers_.end() ? kNoNodes : found->second;
}

const std::vector<Value>& Names::values(int place) const {
  return place < 0 ? kNoValues : places_[static_cast<size_t>(place)].values;
}

const std::vector<const Node*>& Names::mentions(int place) const {
  return place < 0 ? kNoNodes : places_[static_cast<size_t>(place)].mentions;
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

std::string text_of(const Names& names, const Node* node) { return std::string(names.tree().text(*node)); }

}  // namespace telar::weave
