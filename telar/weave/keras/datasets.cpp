// Which expressions of a Keras or TensorFlow script are datasets of tf.data, or hold some.
#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "telar/weave/keras/program.h"

namespace telar::weave {

namespace {

bool dataset_within(const Names& names, const Node* expression, int depth);

/// Whether an expression holds several datasets: a display, what a library returns, a list that grows.
bool holds_datasets(const Names& names, const Node* expression, int depth) {
  if (expression == nullptr || depth == 0) return false;
  const auto any = [&](Nodes all) {
    return std::any_of(all.begin(), all.end(),
                       [&](const Node* one) { return dataset_within(names, one, depth - 1); });
  };
  switch (expression->kind) {
    case Kind::tuple:
    case Kind::list: return any(expression->list("elts"));
    case Kind::dict: return any(expression->list("values"));
    case Kind::list_comp: return any(expression->list("elt"));
    case Kind::dict_comp: return any(expression->list("value"));
    case Kind::call: {
      const std::string& callee = names.callee(expression);
      if (callee == "tensorflow_datasets.load" || batch_argument(callee) != nullptr) return true;
      const Node* own = names.called_function(expression);
      bool found = false;
      if (own == nullptr) return found;
      walk(*own, [&](const Node& node) {
        if (node.is(Kind::return_)) found = found || holds_datasets(names, node.child("value"), depth - 1);
        return !found;
      });
      return found;
    }
    case Kind::name:
    case Kind::attribute: break;
    default: return false;
  }
  const int place = names.place(expression);
  if (place < 0) return false;
  for (const Value& value : names.values(place)) {
    if (value.part < 0 && !value.element && holds_datasets(names, value.node, depth - 1)) return true;
  }
  const auto& mentions = names.mentions(place);
  return std::any_of(mentions.begin(), mentions.end(), [&](const Node* mention) {
    const Node* method = mention->parent;
    const bool appends = method->is(Kind::attribute) && method->text == "append" &&
                         method->parent->is(Kind::call) && method->role == "func";
    return appends && any(method->parent->list("args"));
  });
}

bool dataset_within(const Names& names, const Node* expression, int depth) {
  if (expression == nullptr || depth == 0) return false;
  if (expression->is(Kind::subscript)) {  // tfds.load("digits")["train"]
    const auto origins = names.origins(expression->child("value"));
    if (std::any_of(origins.begin(), origins.end(), [&](const Node* origin) {
          return origin->is(Kind::call) && names.callee(origin) == "tensorflow_datasets.load";
        }))
      return true;
  }
  if (expression->is(Kind::call)) {
    const Node* function = expression->child("func");
    const std::string callee = names.callee(expression);
    if (callee.starts_with("tensorflow.data.") || callee == "tensorflow_datasets.load" ||
        batch_argument(callee) != nullptr) {
      return true;
    }
    const Node* own = names.definition(function);
    if (own != nullptr && own->is_function()) {
      bool found = false;
      walk(*own, [&](const Node& node) {
        if (node.is(Kind::return_) && node.child("value") != nullptr &&
            !node.child("value")->is(Kind::tuple)) {
          found = found || dataset_within(names, node.child("value"), depth - 1);
        }
        return !found;
      });
      return found;
    }
    static const std::unordered_set<std::string_view> same = {
        "take",    "skip",  "filter", "interleave", "flat_map", "concatenate",
        "unbatch", "apply", "shard",  "window",     "enumerate"};
    return function->is(Kind::attribute) && (keeps_order(function->text) || same.contains(function->text)) &&
           dataset_within(names, function->child("value"), depth - 1);
  }
  if (expression->is(Kind::subscript) && holds_datasets(names, expression->child("value"), depth - 1))
    return true;
  if (expression->is(Kind::name) || expression->is(Kind::attribute) || expression->is(Kind::subscript)) {
    for (const Value& value : names.values(names.place(expression))) {
      if (value.element || value.augmented) continue;
      if (value.part < 0 && dataset_within(names, value.node, depth - 1)) return true;
      if (value.part < 0 || !value.node->is(Kind::call)) continue;
      // One of several values that a function returns.
      const Node* own = names.called_function(value.node);
      bool found = own == nullptr && holds_datasets(names, value.node, depth - 1);
      if (own != nullptr) {
        walk(*own, [&](const Node& node) {
          const Node* given = node.is(Kind::return_) ? node.child("value") : nullptr;
          if (given == nullptr) return !found;
          const bool listed =
              given->is(Kind::tuple) && static_cast<size_t>(value.part) < given->list("elts").size();
          found =
              found ||
              (listed ? dataset_within(names, given->list("elts")[static_cast<size_t>(value.part)], depth - 1)
                      : !given->is(Kind::tuple) && holds_datasets(names, given, depth - 1));
          return !found;
        });
      }
      if (found) return true;
    }
  }
  return false;
}

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

bool is_dataset(const Names& names, const Node* expression) { return dataset_within(names, expression, 12); }

}  // namespace telar::weave
