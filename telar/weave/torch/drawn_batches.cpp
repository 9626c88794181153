// Which values of a training step are the same in all processes, and which rows are drawn at random.
#include "telar/weave/torch/drawn_batches.h"

#include <algorithm>
#include <unordered_set>

namespace telar::weave {

namespace {

using Words = std::unordered_set<std::string_view>;

constexpr int kDepth = 8;

/// The method of a generator of random numbers that the script creates; empty if a call is none.
/// `is_seeded`: whether all processes create it with the same seed.
std::string_view generator_method(const Names& names, const Node* call, bool& is_seeded) {
  const Node* function = call->child("func");
  if (!function->is(Kind::attribute)) return "";
  for (const Node* made : names.origins(function->child("value"))) {
    if (!made->is(Kind::call)) continue;
    const std::string& callee = names.callee(made);
    if (callee != "numpy.random.default_rng" && callee != "numpy.random.RandomState" &&
        callee != "random.Random")
      continue;
    is_seeded = !made->list("args").empty() || !made->list("keywords").empty();
    return function->text;
  }
  return "";
}

bool draws_at_random(const std::string& callee) {
  static const Words others = {"torch.normal", "torch.bernoulli", "torch.multinomial",
                               "sklearn.utils.shuffle", "sklearn.model_selection.train_test_split"};
  return callee.starts_with("torch.rand") || callee.starts_with("numpy.random.") ||
         callee.starts_with("random.") || others.contains(callee);
}

/// Functions outside the program that compute the same in all processes.
bool is_known(const std::string& callee) {
  static const Words builtins = {
      "range", "len",    "zip", "enumerate",  "list",  "tuple",    "int",  "float",  "min",  "max",
      "sum",   "sorted", "map", "abs",        "round", "reversed", "dict", "iter",   "next", "slice",
      "print", "bool",   "str", "isinstance", "any",   "all",      "type", "divmod", "pow",  "hasattr"};
  return callee.starts_with("torch.") || callee.starts_with("numpy.") || callee.starts_with("math.") ||
         callee.starts_with("itertools.") || callee.starts_with("tqdm.") || builtins.contains(callee);
}

bool makes_tensor(const std::string& callee) {
  static const Words names = {"torch.tensor",
                              "torch.Tensor",
                              "torch.as_tensor",
                              "torch.from_numpy",
                              "torch.LongTensor",
                              "torch.FloatTensor",
                              "torch.stack",
                              "torch.DoubleTensor",
                              "torch.IntTensor",
                              "torch.BoolTensor",
                              "numpy.array",
                              "numpy.asarray",
                              "numpy.stack",
                              "numpy.vstack",
                              "torch.vstack",
                              "list",
                              "torch.autograd.Variable",
                              "torch.nn.utils.rnn.pad_sequence"};
  return names.contains(callee);
}

/// Methods that leave the rows of a tensor or array in place.
bool keeps_rows(std::string_view method) {
  static const Words names = {"to",   "cuda",   "cpu",   "float",          "double",
                              "long", "int",    "bool",  "detach",         "clone",
                              "type", "astype", "numpy", "contiguous",     "type_as",
                              "half", "tolist", "copy",  "requires_grad_", "pin_memory"};
  return names.contains(method);
}

}  // namespace

DrawnBatches::DrawnBatches(const Names& names, const TorchProgram& program, const Node* root)
    : names_(names), program_(program), root_(root) {
  std::vector<const Node*> open = {root};
  while (!open.empty()) {
    const Node* at = open.back();
    open.pop_back();
    walk(*at, [&](const Node& node) {
      const Node* called = node.is(Kind::call) ? names.called_function(&node) : nullptr;
      if (called != nullptr && functions_.insert(called).second) open.push_back(called);
      return true;
    });
  }
}

bool DrawnBatches::in_training(const Node* node) const {
  if (is_inside(node, root_)) return true;
  for (const Node* function = function_of(node); function != nullptr; function = function_of(function))
    if (functions_.contains(function)) return true;
  return false;
}

bool DrawnBatches::shuffles(const Names& names, const Node* call) {
  const std::string& callee = names.callee(call);
  bool is_seeded = false;
  return callee == "random.shuffle" || callee == "numpy.random.shuffle" ||
         generator_method(names, call, is_seeded) == "shuffle";
}

bool DrawnBatches::agree(const Node* expression) {
  seen_.clear();
  places_.clear();
  found_.clear();
  if (!reach(expression)) return false;
  draws_.insert(found_.begin(), found_.end());
  return true;
}

/// Follows all that a value is computed from in the training; false if something may differ between the
/// processes.
bool DrawnBatches::reach(const Node* expression) {
  if (expression == nullptr || !in_training(expression) || !seen_.insert(expression).second) return true;
  return reach_within(expression);
}

bool DrawnBatches::reach_within(const Node* node) {
  bool holds = true;
  walk(*node, [&](const Node& inner) {
    if (!holds) return false;
    if (inner.is(Kind::call)) holds = reach_call(&inner);
    if (inner.is(Kind::name) || inner.is(Kind::attribute)) holds = holds && reach_name(&inner);
    return holds;
  });
  return holds;
}

/// A variable: what it is assigned, and what is put into it.
bool DrawnBatches::reach_name(const Node* name) {
  const int place = names_.place(name);
  if (place < 0 || name->store || known_.contains(place) || !places_.insert(place).second) return true;
  for (const Value& value : names_.values(place)) {
    if (value.node->is_function() || value.node->is(Kind::class_def)) continue;
    if (!reach(value.node)) return false;
  }
  for (const Node* mention : names_.mentions(place)) {
    const Node* parent = mention->parent;
    if (!in_training(mention)) continue;
    const bool put = parent->is(Kind::subscript) && parent->store && mention->role == "value";
    const bool grows = parent->is(Kind::attribute) && parent->parent->is(Kind::call) &&
                       parent->role == "func" &&
                       (parent->text == "append" || parent->text == "extend" || parent->text == "insert");
    const bool moves = parent->is(Kind::call) && mention->role == "args" && shuffles(names_, parent);
    if ((put || grows) && !reach(statement_of(mention))) return false;
    if (moves) found_.insert(parent);
  }
  return true;
}

bool DrawnBatches::applies_layers(const Node* call) const {
  const auto origins = names_.origins(call->child("func"));
  return std::any_of(origins.begin(), origins.end(), [&](const Node* origin) {
    const Node* owner = origin->is(Kind::call) ? names_.definition(origin->child("func")) : nullptr;
    const bool is_layer = origin->is(Kind::call) && names_.callee(origin).starts_with("torch.nn.");
    return is_layer ||
           (owner != nullptr && owner->is(Kind::class_def) && names_.derives(owner, {"torch.nn.Module"}));
  });
}

bool DrawnBatches::reach_call(const Node* call) {
  if (applies_layers(call)) return false;
  const Node* function = call->child("func");
  for (const Node* origin : names_.origins(function))
    for (const TorchModel& model : program_.models)
      if (std::find(model.origins.begin(), model.origins.end(), origin) != model.origins.end()) return false;
  const std::string callee = names_.callee(call);
  bool is_seeded = false;
  const std::string_view method = generator_method(names_, call, is_seeded);
  const bool creates = callee == "numpy.random.default_rng" || callee == "numpy.random.RandomState" ||
                       callee == "random.Random";
  if (!creates && (draws_at_random(callee) || (!method.empty() && !is_seeded))) {
    found_.insert(call);
    return true;
  }
  if (const Node* own = names_.called_function(call)) return !seen_.insert(own).second || reach_within(own);
  if (function->is(Kind::attribute) && callee.empty()) return true;  // a method: its object is looked at
  return is_known(callee) || names_.definition(function) != nullptr;
}

bool DrawnBatches::is_shuffled(const Node* name) const {
  const auto& mentions = names_.mentions(names_.place(name));
  return std::any_of(mentions.begin(), mentions.end(), [&](const Node* mention) {
    return mention->parent->is(Kind::call) && mention->role == "args" && shuffles(names_, mention->parent);
  });
}

/// Whether an expression is a vector of random indices.
bool DrawnBatches::is_random_vector(const Node* expression, int depth) {
  if (expression == nullptr || depth == 0) return false;
  if (expression->is(Kind::subscript)) {
    const Node* slice = expression->child("slice");
    const bool cuts =
        names_.tree().text(*slice).find(':') != std::string_view::npos && slice->is(Kind::other);
    return cuts && is_random_vector(expression->child("value"), depth - 1);
  }
  if (expression->is(Kind::name) || expression->is(Kind::attribute)) {
    const int place = names_.place(expression);
    if (place < 0) return false;
    if (is_shuffled(expression)) return true;
    const auto& values = names_.values(place);
    return !values.empty() && std::all_of(values.begin(), values.end(), [&](const Value& value) {
      if (value.augmented || value.part >= 0) return false;
      if (!value.element) return is_random_vector(value.node, depth - 1);
      // for indices in order.split(size)
      if (!value.node->is(Kind::call)) return false;
      const Node* function = value.node->child("func");
      const std::string callee = names_.callee(value.node);
      if (callee == "torch.split" || callee == "torch.chunk" || callee == "numpy.array_split" ||
          callee == "numpy.split")
        return is_random_vector(value.node->list("args")[0], depth - 1);
      return function->is(Kind::attribute) && (function->text == "split" || function->text == "chunk") &&
             is_random_vector(function->child("value"), depth - 1);
    });
  }
  if (!expression->is(Kind::call)) return false;
  const Node* function = expression->child("func");
  const Nodes given = expression->list("args");
  const std::string callee = names_.callee(expression);
  bool is_seeded = false;
  const std::string_view of_generator = generator_method(names_, expression, is_seeded);
  const std::string_view drawn = !of_generator.empty()                 ? of_generator
                                 : callee.starts_with("numpy.random.") ? std::string_view(callee).substr(13)
                                 : callee.starts_with("random.")       ? std::string_view(callee).substr(7)
                                                                       : "";
  if (callee == "torch.randperm" || callee == "torch.randint" || callee == "torch.multinomial") return true;
  if (drawn == "permutation" || drawn == "sample") return true;
  const bool has_size =
      names_.argument(expression, "size", -1) != nullptr || names_.argument(expression, "k", -1) != nullptr;
  if (drawn == "choice" || drawn == "choices") return has_size || given.size() > 1;
  if (drawn == "randint" || drawn == "integers") return has_size || given.size() > 2;
  if (makes_tensor(callee) && !given.empty()) return is_random_vector(given[0], depth - 1);
  return callee.empty() && function->is(Kind::attribute) && keeps_rows(function->text) &&
         is_random_vector(function->child("value"), depth - 1);
}

/// A list with an element for each random index: `[data[i:i + 8] for i in order]`, or one that a loop fills.
bool DrawnBatches::is_list_of_random(const Node* expression, int depth) {
  const auto over_random = [&](const Node* iterable) {
    return is_random_vector(iterable, depth - 1) || is_random(iterable, -1, depth - 1);
  };
  if (expression->is(Kind::list_comp) || expression->is(Kind::generator)) {
    const Nodes generators = expression->list("generators");
    return generators.size() == 1 && generators[0]->list("ifs").empty() &&
           over_random(generators[0]->child("iter"));
  }
  if (!expression->is(Kind::name)) return false;
  const int place = names_.place(expression);
  bool found = false;
  for (const Node* mention : place < 0 ? std::vector<const Node*>() : names_.mentions(place)) {
    const Node* method = mention->parent;
    if (!method->is(Kind::attribute) || method->text != "append") continue;
    const Node* loop = statement_of(mention)->parent;  // an element for each round
    found = loop->is(Kind::for_) && statement_of(mention)->role == "body" && over_random(loop->child("iter"));
    if (!found) return false;
  }
  return found;
}

bool DrawnBatches::are_random_rows(const Node* expression, int part) {
  return is_random(expression, part, kDepth);
}

bool DrawnBatches::is_random(const Node* expression, int part, int depth) {
  if (expression == nullptr || depth == 0) return false;
  if (expression->is(Kind::tuple) && part >= 0 && static_cast<size_t>(part) < expression->list("elts").size())
    return is_random(expression->list("elts")[static_cast<size_t>(part)], -1, depth - 1);
  if (expression->is(Kind::subscript)) {
    const Node* slice = expression->child("slice");
    const Node* first = slice->is(Kind::tuple) ? slice->list("elts")[0] : slice;
    if (is_random_vector(first, depth - 1)) return true;
    const Node* of = expression->child("value");
    const bool cuts =
        slice->is(Kind::other) && names_.tree().text(*slice).find(':') != std::string_view::npos;
    return cuts && (is_random(of, -1, depth - 1) ||
                    ((of->is(Kind::name) || of->is(Kind::attribute)) && is_shuffled(of)));
  }
  if (expression->is(Kind::call)) return is_random_call(expression, part, depth);
  if (part < 0 && is_list_of_random(expression, depth)) return true;
  if (!expression->is(Kind::name) && !expression->is(Kind::attribute)) return false;
  const int place = names_.place(expression);
  if (place < 0) return false;
  if (part < 0 && is_shuffled(expression)) return true;
  // Of several values, those of the training count: x = torch.tensor(x), in a later line.
  int known = 0;
  for (const Value& value : names_.values(place)) {
    const bool is_itself = value.node->is(Kind::call) && value.part < 0 &&
                           makes_tensor(names_.callee(value.node)) && !value.node->list("args").empty() &&
                           names_.place(value.node->list("args")[0]) == place;
    if (value.augmented || !in_training(value.node) || is_itself) continue;
    const bool holds = value.element
                           ? value.node->is(Kind::call) && is_random_call(value.node, value.part, depth - 1)
                           : is_random(value.node, value.part, depth - 1);
    const bool empty = value.node->is(Kind::list) && value.node->list("elts").empty();
    if (!holds && !(empty && is_list_of_random(expression, depth))) return false;
    ++known;
  }
  return known > 0;
}

bool DrawnBatches::is_random_call(const Node* call, int part, int depth) {
  const Node* function = call->child("func");
  const Nodes given = call->list("args");
  if (const Node* own = names_.called_function(call)) {
    bool found = false;
    bool holds = true;
    walk(*own, [&](const Node& node) {
      if (&node != own && (node.is_function() || node.is(Kind::lambda))) return false;
      if (!node.is(Kind::return_) && !node.is(Kind::yield)) return holds;
      found = true;
      holds = holds && is_random(node.child("value"), part, depth - 1);
      return holds;
    });
    return found && holds;
  }
  const std::string callee = names_.callee(call);
  static const Words of_independent = {"torch.rand", "torch.randn", "numpy.random.rand",
                                       "numpy.random.randn"};
  if (of_independent.contains(callee)) return given.size() > 1;
  if (given.empty()) {
    return callee.empty() && function->is(Kind::attribute) && keeps_rows(function->text) &&
           is_random(function->child("value"), part, depth - 1);
  }
  if (callee == "torch.index_select")
    return given.size() == 3 && given[1]->text == "0" && is_random_vector(given[2], depth - 1);
  if (makes_tensor(callee))
    return is_list_of_random(given[0], depth - 1) || is_random(given[0], -1, depth - 1);
  if (!function->is(Kind::attribute) || !callee.empty()) return false;
  if (function->text == "index_select")
    return given.size() == 2 && given[0]->text == "0" && is_random_vector(given[1], depth - 1);
  const bool shapes = function->text == "view" || function->text == "reshape";
  const bool keeps = keeps_rows(function->text) || (function->text == "unsqueeze" && given[0]->text != "0") ||
                     (shapes && names_.tree().text(*given[0]) == "-1" && given.size() > 1);
  return keeps && is_random(function->child("value"), -1, depth - 1);
}

}  // namespace telar::weave
