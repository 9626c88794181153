// Keras: multiplies learning rates, and those of schedules, by the number of processes.
#include <algorithm>
#include <map>

#include "telar/weave/keras/writer.h"

namespace telar::weave {

namespace {

/// The arguments of a schedule that are rates, and those that count steps.
struct Schedule {
  std::vector<std::pair<const char*, int>> rates;
  std::vector<std::pair<const char*, int>> steps;
};
const std::map<std::string, Schedule>& schedules() {
  static const std::map<std::string, Schedule> table = {
      {"ExponentialDecay", {{{"initial_learning_rate", 0}}, {{"decay_steps", 1}}}},
      {"InverseTimeDecay", {{{"initial_learning_rate", 0}}, {{"decay_steps", 1}}}},
      {"PolynomialDecay", {{{"initial_learning_rate", 0}, {"end_learning_rate", 2}}, {{"decay_steps", 1}}}},
      {"CosineDecay",
       {{{"initial_learning_rate", 0}, {"warmup_target", 4}}, {{"decay_steps", 1}, {"warmup_steps", 5}}}},
      {"CosineDecayRestarts", {{{"initial_learning_rate", 0}}, {{"first_decay_steps", 1}}}},
      {"PiecewiseConstantDecay", {{{"values", 1}}, {{"boundaries", 0}}}}};
  return table;
}

void scale_number(KerasWeaving& w, const Node* rate) {
  if (rate->inside_fstring) w.refuse(rate, "move the learning rate out of the f-string");
  if (!w.shared.insert(rate).second) return;
  w.edits.replace(*rate, times(w.names.tree(), *rate, w.dialect.size(rate)));
  w.edits.explain(rate->line, "learning rate × number of processes", kWhyRatesGrow);
}

/// Multiplies a number, or each number of a list.
void scale_rates(KerasWeaving& w, const Node* rates) {
  if (rates->literal == Literal::null || rates->text == "0" || rates->text == "0.0") return;
  const auto origins = w.names.origins(rates);
  const bool list = std::any_of(origins.begin(), origins.end(),
                                [](const Node* one) { return one->is(Kind::list) || one->is(Kind::tuple); });
  if (!list) return scale_number(w, rates);
  for (const Node* origin : origins) {
    for (const Node* one : origin->list("elts")) scale_number(w, one);
  }
}

void divide_steps(KerasWeaving& w, const Node* steps) {
  if (!w.has_fewer_steps() || counts_shared(w, steps)) return;
  const auto divide = [&](const Node* count) {
    if (!w.shared.insert(count).second) return;
    w.edits.replace(*count, divided(w.names.tree(), *count, w.dialect.size(count)));
    w.edits.explain(count->line, "the schedule's steps are divided by the number of processes",
                    "an epoch has fewer steps by that factor");
  };
  const auto origins = w.names.origins(steps);
  const bool list = std::any_of(origins.begin(), origins.end(),
                                [](const Node* one) { return one->is(Kind::list) || one->is(Kind::tuple); });
  if (!list) return divide(steps);
  for (const Node* origin : origins) {
    for (const Node* one : origin->list("elts")) divide(one);
  }
}

/// Adds the configuration of a schedule class, if its attributes are the parameters of __init__.
void add_configuration(KerasWeaving& w, const Node* class_def) {
  std::string entries;
  const Node* init = w.names.method(class_def, "__init__");
  const Nodes parameters = init == nullptr ? Nodes() : init->child("args")->list("args");
  for (const Node* parameter : parameters) {
    if (parameter == parameters[0]) continue;
    const Node* kept = nullptr;  // self.rate = rate
    walk(*init, [&](const Node& node) {
      const bool keeps = node.is(Kind::assign) && node.child("value")->is(Kind::name) &&
                         node.child("value")->text == parameter->text &&
                         node.list("targets")[0]->is(Kind::attribute);
      if (keeps) kept = node.list("targets")[0];
      return true;
    });
    if (kept == nullptr || init->parent != class_def)
      w.refuse(
          class_def,
          "give this schedule a get_config() method, from which Horovod creates its optimizer's schedule");
    entries += (entries.empty() ? "\"" : ", \"") + std::string(parameter->text) + "\": " + w.text(*kept);
  }
  const std::string self = parameters.empty() ? "self" : std::string(parameters[0]->text);
  w.edits.after(*class_def->list("body").back(),
                {"", "def get_config(" + self + "):", "    return {" + entries + "}"});
  w.edits.explain(class_def->line, "get_config()", "Horovod creates its optimizer's schedule from it");
}

/// A schedule class of the script: it receives the step of one process, and its rates are multiplied.
void scale_own_schedule(KerasWeaving& w, const Node* class_def) {
  const Node* call = w.names.method(class_def, "__call__");
  if (call == nullptr || call->child("args")->list("args").size() < 2)
    w.refuse(class_def, "its __call__(self, step) cannot be found");
  if (!w.shared.insert(call).second) return;
  if (w.dialect.is_horovod()) {
    // Horovod creates its optimizer from the configuration of the script's optimizer.
    if (w.names.method(class_def, "get_config") == nullptr) add_configuration(w, class_def);
    const auto& decorators = class_def->list("decorator_list");
    const bool registered = std::any_of(decorators.begin(), decorators.end(), [&](const Node* one) {
      return w.text(*one).find("register_keras_serializable") != std::string::npos;
    });
    if (!registered)
      w.edits.before(*class_def,
                     {"@" + w.keras_module("utils", class_def) + ".register_keras_serializable()"});
  }
  const std::string step(call->child("args")->list("args")[1]->text);
  if (w.has_fewer_steps()) {
    w.dialect.use(call);
    w.edits.before(*call->list("body").front(), {step + " = " + step + " * " + w.dialect.size(call)});
    w.edits.explain(call->line, step + " × number of processes", "an epoch has fewer steps by that factor");
  }
  walk(*call, [&](const Node& node) {
    if (&node != call && node.is_function()) return false;
    if (node.is(Kind::return_) && node.child("value") != nullptr) scale_number(w, node.child("value"));
    return true;
  });
}

}  // namespace

void scale_keras_rate(KerasWeaving& w, const Node* rate) {
  if (!w.grows()) return;
  for (const Node* origin : w.names.origins(rate)) {
    if (!origin->is(Kind::call)) continue;
    const std::string callee = w.names.callee(origin);
    const std::string_view prefix = "keras.optimizers.schedules.";
    const Node* own = w.names.definition(origin->child("func"));
    if (own != nullptr && own->is(Kind::class_def)) return scale_own_schedule(w, own);
    if (!callee.starts_with(prefix)) continue;
    const auto found = schedules().find(callee.substr(prefix.size()));
    if (found == schedules().end())
      w.refuse(origin, "this schedule is not known; weave with --global-batch keep");
    for (const auto& [name, position] : found->second.rates) {
      if (const Node* value = w.names.argument(origin, name, position)) scale_rates(w, value);
    }
    for (const auto& [name, position] : found->second.steps) {
      if (const Node* value = w.names.argument(origin, name, position)) divide_steps(w, value);
    }
    return;
  }
  scale_number(w, rate);
}

}  // namespace telar::weave
