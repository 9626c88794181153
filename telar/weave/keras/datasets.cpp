// Which expressions of a Keras or TensorFlow script are datasets of tf.data, or hold some.
#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "telar/weave/keras/program.h"

namespace telar::weave {

namespace {

/// Searches the values of an expression for a dataset, each of them once.
class Search {
 public:
  explicit Search(const Names& names) : names_(names) {}

  bool is_dataset(const Node* expression) {
    if (expression == nullptr || !seen_.insert(expression).second) return false;
    switch (expression->kind) {
      case Kind::call: return is_made_by(expression);
      case Kind::subscript:
        if (is_loaded_split(expression) || holds(expression->child("value"))) return true;
        return is_variable(expression);
      case Kind::name:
      case Kind::attribute: return is_variable(expression);
      default: return false;
    }
  }

 private:
  bool is_made_by(const Node* call) {
    const Node* function = call->child("func");
    const std::string& callee = names_.callee(call);
    if (callee.starts_with("tensorflow.data.") || callee == "tensorflow_datasets.load" ||
        batch_argument(callee) != nullptr || is_built(call))
      return true;
    const Node* own = names_.definition(function);
    if (own != nullptr && own->is_function())
      return any_return(own, [&](const Node* value) { return !value->is(Kind::tuple) && is_dataset(value); });
    static const std::unordered_set<std::string_view> same = {
        "take",  "skip",   "filter",    "interleave", "flat_map",     "concatenate", "unbatch",   "apply",
        "shard", "window", "enumerate", "rebatch",    "ragged_batch", "unique",      "take_while"};
    return function->is(Kind::attribute) && (keeps_order(function->text) || same.contains(function->text)) &&
           is_dataset(function->child("value"));
  }

  /// `builder.as_dataset(…)` of TensorFlow Datasets.
  bool is_built(const Node* call) const {
    const Node* function = call->child("func");
    return function->is(Kind::attribute) && function->text == "as_dataset" &&
           comes_from(function->child("value"), "tensorflow_datasets.builder");
  }

  /// `tfds.load("digits")["train"]`
  bool is_loaded_split(const Node* subscript) const {
    return comes_from(subscript->child("value"), "tensorflow_datasets.load");
  }

  bool comes_from(const Node* expression, std::string_view callee) const {
    const auto origins = names_.origins(expression);
    return std::any_of(origins.begin(), origins.end(), [&](const Node* origin) {
      return origin->is(Kind::call) && names_.callee(origin) == callee;
    });
  }

  bool is_variable(const Node* expression) {
    const auto& values = names_.values(names_.place(expression));
    return std::any_of(values.begin(), values.end(), [&](const Value& value) {
      if (value.element || value.augmented) return false;
      return value.part < 0 ? is_dataset(value.node) : value.node->is(Kind::call) && is_part(value);
    });
  }

  /// One of several values that a function returns.
  bool is_part(const Value& value) {
    const Node* own = names_.called_function(value.node);
    if (own == nullptr) return holds(value.node);
    const auto part = static_cast<size_t>(value.part);
    return any_return(own, [&](const Node* given) {
      if (!given->is(Kind::tuple)) return holds(given);
      return part < given->list("elts").size() && is_dataset(given->list("elts")[part]);
    });
  }

  template <typename Test>
  bool any_return(const Node* function, const Test& test) {
    bool found = false;
    walk(*function, [&](const Node& node) {
      if (node.is(Kind::return_) && node.child("value") != nullptr)
        found = found || test(node.child("value"));
      return !found;
    });
    return found;
  }

  bool any(Nodes all) {
    return std::any_of(all.begin(), all.end(), [&](const Node* one) { return is_dataset(one); });
  }

  /// Whether an expression holds several datasets: a display, what a library returns, a list that grows.
  bool holds(const Node* expression) {
    if (expression == nullptr || !held_.insert(expression).second) return false;
    switch (expression->kind) {
      case Kind::tuple:
      case Kind::list: return any(expression->list("elts"));
      case Kind::dict: return any(expression->list("values"));
      case Kind::list_comp: return any(expression->list("elt"));
      case Kind::dict_comp: return any(expression->list("value"));
      case Kind::call: {
        const std::string& callee = names_.callee(expression);
        if (callee == "tensorflow_datasets.load" || batch_argument(callee) != nullptr || is_built(expression))
          return true;
        const Node* own = names_.called_function(expression);
        return own != nullptr && any_return(own, [&](const Node* value) { return holds(value); });
      }
      case Kind::name:
      case Kind::attribute: return is_variable_of_several(expression);
      default: return false;
    }
  }

  bool is_variable_of_several(const Node* expression) {
    const int place = names_.place(expression);
    if (place < 0) return false;
    for (const Value& value : names_.values(place)) {
      if (value.part < 0 && !value.element && holds(value.node)) return true;
    }
    const auto& mentions = names_.mentions(place);
    return std::any_of(mentions.begin(), mentions.end(), [&](const Node* mention) {
      const Node* method = mention->parent;
      const bool appends = method->is(Kind::attribute) && method->text == "append" &&
                           method->parent->is(Kind::call) && method->role == "func";
      return appends && any(method->parent->list("args"));
    });
  }

  const Names& names_;
  std::unordered_set<const Node*> seen_;
  std::unordered_set<const Node*> held_;
};

}  // namespace

const BatchArgument* batch_argument(const std::string& callee) {
  static const std::unordered_map<std::string_view, BatchArgument> functions = {
      {"image_dataset_from_directory", {5, "32"}},
      {"text_dataset_from_directory", {4, "32"}},
      {"audio_dataset_from_directory", {4, "32"}},
      {"timeseries_dataset_from_array", {5, "128"}}};
  if (!callee.starts_with("keras.")) return nullptr;
  const auto found = functions.find(std::string_view(callee).substr(callee.rfind('.') + 1));
  return found == functions.end() ? nullptr : &found->second;
}

bool keeps_order(std::string_view method) {
  static const std::unordered_set<std::string_view> methods = {
      "map", "batch", "padded_batch", "shuffle", "repeat", "prefetch", "cache", "with_options"};
  return methods.contains(method);
}

bool is_dataset(const Names& names, const Node* expression) { return Search(names).is_dataset(expression); }

}  // namespace telar::weave
