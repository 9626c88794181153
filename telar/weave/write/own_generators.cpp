#include "telar/weave/write/own_generators.h"

#include <algorithm>

namespace telar::weave {

namespace {

bool is_created_without_seed(const Names& names, const Node* call) {
  const std::string& callee = names.callee(call);
  if (callee != "numpy.random.default_rng" && callee != "numpy.random.RandomState" &&
      callee != "random.Random")
    return false;
  const auto& given = call->list("args");
  return call->list("keywords").empty() &&
         (given.empty() || (given.size() == 1 && given[0]->literal == Literal::null));
}

/// Whether a node runs once in the program, as far as its loops and the calls of its functions tell.
bool runs_once(const Names& names, const Node* node, int depth = 4) {
  for (const Node* around = node->parent; around != nullptr && !around->is_function();
       around = around->parent) {
    const bool repeats = around->is(Kind::for_) || around->is(Kind::while_) || around->is(Kind::lambda) ||
                         around->is(Kind::list_comp) || around->is(Kind::generator);
    if (repeats) return false;
  }
  const Node* function = function_of(node);
  if (function == nullptr) return true;
  const auto& calls = names.calls_of(function);
  return depth > 0 && calls.size() == 1 && runs_once(names, calls[0], depth - 1);
}

/// Whether a call draws from the generator that `created` creates: `rng.random()`, `f(x, random_state=rng)`.
bool draws_from(const Names& names, const Node* call, const Node* created) {
  const auto is_it = [&](const Node* expression) {
    const auto origins = names.origins(expression);
    return std::find(origins.begin(), origins.end(), created) != origins.end();
  };
  const Node* function = call->child("func");
  if (function->is(Kind::attribute) && is_it(function->child("value"))) return true;
  if (names.called_function(call) != nullptr) return false;  // it draws in its own calls
  const auto& named = call->list("keywords");
  return std::any_of(call->list("args").begin(), call->list("args").end(), is_it) ||
         std::any_of(named.begin(), named.end(), [&](const Node* one) { return is_it(one->child("value")); });
}

}  // namespace

void seed_own_generators(const Names& names, Edits& edits, const std::function<bool(const Node*)>& trains) {
  int seed = 0;
  for (const Node* created : names.calls()) {
    if (!is_created_without_seed(names, created)) continue;
    const Node* early = nullptr;
    const Node* late = nullptr;
    for (const Node* call : names.calls()) {
      if (call == created || !draws_from(names, call, created)) continue;
      (trains(call) ? late : early) = call;
    }
    if (early == nullptr) continue;
    const std::string text(names.tree().text(*created));
    if (late != nullptr)
      throw Refusal{
          created->line, text,
          "what it draws before training must agree in all processes, but what it draws in training must differ; create a generator with a seed for the one, and a generator without for the other"};
    if (!runs_once(names, created))
      throw Refusal{
          created->line, text,
          "each process would draw other numbers, and with a seed, each of these generators would draw the same; create one with a seed at the beginning"};
    const Nodes given = created->list("args");
    const std::string number = std::to_string(seed++);
    if (given.empty()) {
      edits.add_argument(*created, number);
    } else {
      edits.replace(*given[0], number);
    }
    edits.explain(created->line, text + " with a seed",
                  "random draws before training, such as a split of the data, must agree in all processes");
  }
}

}  // namespace telar::weave
