// What a training step with a tape trains: models, and variables that a script makes by itself.
#include "telar/weave/keras/trained.h"

#include <algorithm>

#include "telar/weave/torch/writer.h"

namespace telar::weave {

namespace {

constexpr int kMostNames = 4;  // that are followed, one assigned to the other

/// `model.trainable_variables`
bool is_list_of_model(const Node& node) {
  return node.is(Kind::attribute) &&
         (node.text == "trainable_variables" || node.text == "trainable_weights" ||
          node.text == "variables" || node.text == "weights");
}

/// `tf.Variable(…)`. One that is made in a loop is no parameter, but an image that a loop changes.
bool makes_variable(const Names& names, const Node* node) {
  return node->is(Kind::call) && names.callee(node) == "tensorflow.Variable" && loop_around(node) == nullptr;
}

/// What is assigned to a name or attribute, in part or as a whole.
std::vector<const Node*> assigned(const Names& names, const Node* variable) {
  std::vector<const Node*> found;
  if (!variable->is(Kind::name) && !variable->is(Kind::attribute)) return found;
  for (const Value& value : names.values(names.place(variable))) {
    if (!value.node->is(Kind::class_def) && !value.node->is_function() && value.node != variable)
      found.push_back(value.node);
  }
  return found;
}

/// Whether an expression contains what `wanted` accepts, also behind its names.
template <typename Wanted>
bool contains(const Names& names, const Node* expression, const Wanted& wanted, int depth = kMostNames) {
  bool found = false;
  walk(*expression, [&](const Node& node) {
    found = found || wanted(node);
    if (found || depth == 0) return !found;
    for (const Node* value : assigned(names, &node))
      found = found || contains(names, value, wanted, depth - 1);
    return !found;
  });
  return found;
}

void add(std::vector<std::string>& to, const std::string& text) {
  if (!text.empty() && std::find(to.begin(), to.end(), text) == to.end()) to.push_back(text);
}

void add_all(const KerasWeaving& w, const Node* sources, const KerasLoop& loop, Trained& trained, int depth) {
  const auto makes = [&](const Node& node) { return makes_variable(w.names, &node); };
  walk(*sources, [&](const Node& node) {
    if (is_list_of_model(node) && node.text != "weights") {
      add(trained.models, visible_at(w, node.child("value"), loop));
      return false;
    }
    if (depth == 0) return true;
    for (const Node* value : assigned(w.names, &node)) {
      if (value == sources) continue;
      if (makes_variable(w.names, value)) {
        add(trained.variables, visible_at(w, &node, loop));
      } else if (value->is(Kind::dict) && contains(w.names, value, makes)) {
        add(trained.lists, "list(" + visible_at(w, &node, loop) + ".values())");
      } else if ((value->is(Kind::list) || value->is(Kind::tuple)) && contains(w.names, value, makes, 0)) {
        add(trained.lists, visible_at(w, &node, loop));
      } else if (names_variables(w, value)) {
        add_all(w, value, loop, trained, depth - 1);
      }
    }
    return true;
  });
}

}  // namespace

bool names_variables(const KerasWeaving& w, const Node* expression) {
  return contains(w.names, expression,
                  [&](const Node& node) { return is_list_of_model(node) || makes_variable(w.names, &node); });
}

void add_trained(const KerasWeaving& w, const Node* sources, const KerasLoop& loop, Trained& trained) {
  add_all(w, sources, loop, trained, kMostNames);
}

std::string visible_at(const KerasWeaving& w, const Node* expression, const KerasLoop& loop) {
  const Node* at = expression;
  for (int steps = 0; steps < 6; ++steps) {
    const int place = w.names.place(at);
    if (place < 0) break;
    const Node* scope = w.names.scope(place);
    const bool here =
        scope->is(Kind::module) ? w.names.means_the_same(at, loop.loop) : scope == function_of(loop.loop);
    if (here) return w.text(*at);
    if (scope->is(Kind::module)) break;
    if (scope->is(Kind::class_def) && class_of(loop.loop) != nullptr && class_of(at) == class_of(loop.loop))
      return w.text(*at);
    const Node* given = nullptr;
    for (const Value& value : w.names.values(place)) {
      if (function_of(value.node) == function_of(loop.loop) || given == nullptr) given = value.node;
    }
    if (given == nullptr || given == at) break;
    at = given;
  }
  w.refuse(
      expression,
      "it is not visible at the training loop, where its initial values must be made equal in all processes; pass it to the step from there");
}

bool makes_trained(const KerasWeaving& w, const Node* call) {
  const auto is_it = [&](const Node& node) {
    if (&node == call) return makes_variable(w.names, call);
    if (!is_list_of_model(node) || w.names.callee(call).empty()) return false;
    const auto origins = w.names.origins(node.child("value"));
    return std::find(origins.begin(), origins.end(), call) != origins.end();
  };
  return std::any_of(w.program.tapes.begin(), w.program.tapes.end(), [&](const KerasTape& tape) {
    const auto gradients = gradients_of(w, tape);
    return std::any_of(gradients.begin(), gradients.end(), [&](const Node* gradient) {
      const Node* sources = w.names.argument(gradient, "sources", 1);
      return sources != nullptr && contains(w.names, sources, is_it);
    });
  });
}

}  // namespace telar::weave
