// Follows wrapped models to everything that holds one.
#include "telar/weave/torch/wrapped_models.h"

#include <algorithm>

#include "telar/weave/write/edits.h"

namespace telar::weave {

const Wrapped* WrappedModels::wrapped(const Node* expression, int part, int depth) const {
  if (expression == nullptr || depth == 0) return nullptr;
  if (expression->is(Kind::name) || expression->is(Kind::attribute) || expression->is(Kind::subscript)) {
    const int place = names_.place(expression);
    if (const auto known = roots_.find(place); known != roots_.end()) {
      const Node* before = known->second->before;
      const bool same_function = function_of(expression) == function_of(before);
      const bool earlier = expression->begin < statement_begin(*before);
      return same_function && earlier ? nullptr : known->second;
    }
    const auto spread = spread_.find(place);
    if (spread != spread_.end()) return spread->second;
    return expression->is(Kind::subscript) ? entry(expression, depth) : nullptr;
  }
  if (expression->is(Kind::tuple) && part >= 0 &&
      static_cast<size_t>(part) < expression->list("elts").size()) {
    return wrapped(expression->list("elts")[static_cast<size_t>(part)], -1, depth - 1);
  }
  if (expression->is(Kind::call)) {
    const Node* function = expression->child("func");
    const Node* own = names_.definition(function);
    const Wrapped* found = nullptr;
    if (own != nullptr && own->is_function()) {
      walk(*own, [&](const Node& node) {
        if (&node != own && node.is_function()) return false;
        if (node.is(Kind::return_) && found == nullptr) found = wrapped(node.child("value"), part, depth - 1);
        return true;
      });
    } else if (function->is(Kind::attribute) &&
               (function->text == "train" || function->text == "eval" || function->text == "to")) {
      found = wrapped(function->child("value"), part, depth - 1);
    }
    return found;
  }
  if (expression->is(Kind::if_exp)) {
    if (takes_wrapper_away(expression)) return nullptr;
    const Wrapped* body = wrapped(expression->child("body"), part, depth - 1);
    return body != nullptr ? body : wrapped(expression->child("orelse"), part, depth - 1);
  }
  return nullptr;
}

bool WrappedModels::takes_wrapper_away(const Node* expression) const {
  if (!expression->is(Kind::if_exp)) return false;
  const Node* body = expression->child("body");
  const Node* other = expression->child("orelse");
  return body->is(Kind::attribute) && body->text == "module" && names_.place(other) >= 0 &&
         names_.tree().text(*body->child("value")) == names_.tree().text(*other);
}

/// The wrapped model that a display holds: an entry, or every element that is a model; null if none.
const Wrapped* WrappedModels::element(const Node* display, int index, int depth) const {
  if (display == nullptr || depth == 0) return nullptr;
  if (display->is(Kind::name) || display->is(Kind::attribute)) {
    const int place = names_.place(display);
    if (place < 0 || names_.values(place).size() != 1) return nullptr;
    const Value& value = names_.values(place).front();
    return value.element || value.augmented || value.part >= 0 ? nullptr
                                                               : element(value.node, index, depth - 1);
  }
  if (display->is(Kind::subscript) && display->child("slice")->is(Kind::other))
    return element(display->child("value"), -1, depth - 1);  // nets[:2]
  const bool table = display->is(Kind::dict) && index < 0;
  if (!display->is(Kind::list) && !display->is(Kind::tuple) && !table) return nullptr;
  const auto& all = display->list(table ? "values" : "elts");
  const auto count = static_cast<int>(all.size());
  if (index >= 0 && index < count) return wrapped(all[static_cast<size_t>(index)], -1, depth - 1);
  const Wrapped* found = nullptr;
  for (const Node* one : all) {
    found = wrapped(one, -1, depth - 1);
    if (found == nullptr) return nullptr;
  }
  return found;
}

/// The wrapped model that a loop's variable holds: `for net in nets`, `for i, net in enumerate(nets)`.
const Wrapped* WrappedModels::iterated(const Value& value) const {
  const Node* over = value.node;
  if (value.part < 0 && !over->is(Kind::call)) return element(over, -1, 8);
  if (!over->is(Kind::call)) return nullptr;
  const Node* function = over->child("func");
  const auto& given = over->list("args");
  const auto part = static_cast<size_t>(std::max(value.part, 0));
  if (names_.callee(over) == "enumerate" && part == 1 && !given.empty()) return element(given[0], -1, 8);
  if (names_.callee(over) == "zip" && part < given.size()) return element(given[part], -1, 8);
  const bool of_table =
      function->is(Kind::attribute) && given.empty() &&
      ((function->text == "values" && value.part < 0) || (function->text == "items" && value.part == 1));
  return of_table ? element(function->child("value"), -1, 8) : nullptr;
}

/// The wrapped model that `table["key"]` or `list[0]` holds; null if none.
const Wrapped* WrappedModels::entry(const Node* subscript, int depth) const {
  const Node* index = subscript->child("slice");
  if (index->is_string()) {
    const int place = names_.place(subscript->child("value"));
    if (place < 0 || names_.values(place).size() != 1) return nullptr;
    const Node* table = names_.values(place).front().node;
    if (table == nullptr || !table->is(Kind::dict)) return nullptr;
    const auto& keys = table->list("keys");
    const auto found = std::find_if(keys.begin(), keys.end(), [&](const Node* key) {
      return key != nullptr && key->is_string() && key->text == index->text;
    });
    if (found == keys.end()) return nullptr;
    return wrapped(table->list("values")[static_cast<size_t>(found - keys.begin())], -1, depth - 1);
  }
  const auto number = index->is(Kind::constant) ? names_.tree().text(*index) : std::string_view("*");
  const bool is_number = !number.empty() && number.find_first_not_of("0123456789") == std::string::npos;
  return element(subscript->child("value"), is_number ? std::stoi(std::string(number)) : -1, depth - 1);
}

/// Whether a variable receives another model from a file: `model = torch.load("best.pt")`.
bool WrappedModels::is_loaded(int place) const {
  const auto& values = names_.values(place);
  return std::any_of(values.begin(), values.end(), [&](const Value& value) {
    return value.part < 0 && value.node->is(Kind::call) && names_.callee(value.node) == "torch.load";
  });
}

bool WrappedModels::is_always_wrapped(const Node* node) const {
  const int place = names_.place(node);
  if (roots_.contains(place)) return !is_loaded(place);
  for (const Value& value : names_.values(place)) {
    if (value.element || value.augmented || wrapped(value.node, value.part) != nullptr) continue;
    for (const Node* origin : names_.origins(value.node, value.part))
      if (origin->literal != Literal::null && !origin->is(Kind::constant)) return false;
  }
  return true;
}

void WrappedModels::follow(const std::vector<Wrapped>& models) {
  for (const Wrapped& model : models) roots_.try_emplace(model.place, &model);
  std::vector<int> places;
  for (const Node& node : names_.tree().nodes()) {
    if (node.is(Kind::name) || node.is(Kind::attribute) || node.is(Kind::arg) || node.is(Kind::subscript)) {
      if (const int place = names_.place(&node); place >= 0) places.push_back(place);
    }
  }
  std::sort(places.begin(), places.end());
  places.erase(std::unique(places.begin(), places.end()), places.end());
  for (bool changed = true; changed;) {
    changed = false;
    for (const int place : places) {
      if (spread_.contains(place) || roots_.contains(place)) continue;
      for (const Value& value : names_.values(place)) {
        if (value.augmented) continue;
        const Wrapped* found = value.element ? iterated(value) : wrapped(value.node, value.part);
        if (found == nullptr) continue;
        spread_[place] = found;
        changed = true;
        break;
      }
    }
  }
}

}  // namespace telar::weave
