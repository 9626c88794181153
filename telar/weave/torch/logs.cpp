// Numbers that functions of a training step collect in an object or a table: `self.log("loss", loss)` of a
// module in the style of Lightning, `self.running += loss.item()` in a trainer's step. Each process collects
// those of its own batches; after the loop they are joined.
#include <algorithm>
#include <functional>
#include <optional>
#include <set>

#include "telar/weave/torch/values.h"

namespace telar::weave {

namespace {

/// A statement of a step that adds a number to a container. `average`: it mixes it in, as in
/// `self.loss = 0.9 * self.loss + 0.1 * loss.item()`; the value is all of that.
struct Growth {
  enum class Kind { sum, average, list, table_of_sums, table_of_lists };
  Kind kind = Kind::sum;
  const Node* container = nullptr;  // self.logged
  const Node* value = nullptr;
};

bool is_same(const Node& a, const Node& b) {
  if (a.kind != b.kind || a.text != b.text) return false;
  return a.is(Kind::name) || (a.is(Kind::attribute) && is_same(*a.child("value"), *b.child("value")));
}

bool contains(const Node& value, const std::function<bool(const Node&)>& wanted) {
  bool found = false;
  walk(value, [&](const Node& node) {
    found = found || wanted(node);
    return !found;
  });
  return found;
}

/// `total = total + number`, and averages.
std::optional<Growth> growth_by_assignment(const Node& statement) {
  const auto& targets = statement.list("targets");
  const Node* value = statement.child("value");
  if (targets.size() != 1 || !contains(*value, [&](const Node& node) { return is_same(node, *targets[0]); }))
    return std::nullopt;
  if (value->is(Kind::bin_op) && value->child("op")->is(Kind::add) &&
      is_same(*value->child("left"), *targets[0]))
    return Growth{Growth::Kind::sum, targets[0], value->child("right")};
  return Growth{Growth::Kind::average, targets[0], value};
}

std::optional<Growth> growth_of(const Node& statement) {
  if (statement.is(Kind::assign)) return growth_by_assignment(statement);
  if (statement.is(Kind::aug_assign) && statement.child("op")->is(Kind::add)) {
    const Node* target = statement.child("target");
    if (target->is(Kind::subscript))
      return Growth{Growth::Kind::table_of_sums, target->child("value"), statement.child("value")};
    return Growth{Growth::Kind::sum, target, statement.child("value")};
  }
  if (!statement.is(Kind::expr) || !statement.child("value")->is(Kind::call)) return std::nullopt;
  const Node* call = statement.child("value");
  const Node* function = call->child("func");
  if (!function->is(Kind::attribute) || function->text != "append" || call->list("args").size() != 1)
    return std::nullopt;
  const Node* list = function->child("value");
  const Node* value = call->list("args")[0];
  const bool by_default = list->is(Kind::call) && list->child("func")->is(Kind::attribute) &&
                          list->child("func")->text == "setdefault";
  if (by_default) return Growth{Growth::Kind::table_of_lists, list->child("func")->child("value"), value};
  if (list->is(Kind::subscript)) return Growth{Growth::Kind::table_of_lists, list->child("value"), value};
  return Growth{Growth::Kind::list, list, value};
}

class StepLogs {
 public:
  StepLogs(TorchWeaving& weaving, const TorchLoop& loop) : w_(weaving), loop_(loop) {}

  void write() {
    walk(*loop_.loop, [&](const Node& node) {
      if (node.is(Kind::call)) enter(node, receiver_of(node), 0);
      return true;
    });
  }

 private:
  /// The object whose method a call runs, as the loop names it; empty if it is none.
  std::string receiver_of(const Node& call) const {
    const Node* function = call.child("func");
    if (!function->is(Kind::attribute)) return {};
    const Node* object = function->child("value");
    return object->is(Kind::name) || object->is(Kind::attribute) ? w_.text(*object) : std::string();
  }

  /// Reads the function that a call runs. `object`: what the loop calls the method's object.
  void enter(const Node& call, const std::string& object, int depth) {
    const Node* function = w_.names.called_function(&call);
    if (function == nullptr || depth > 4 || !entered_.insert({function, object}).second) return;
    const Node* owner = class_of(function);
    const auto& parameters = function->child("args")->list("args");
    const std::string self(owner != nullptr && !parameters.empty() ? parameters[0]->text : "");
    // write_meters joins what a loop itself tells an object.
    const bool is_meter = depth == 0 && owner != nullptr && object != "self" && call.parent->is(Kind::expr) &&
                          !w_.names.derives(owner, {"torch.nn.Module"});
    if (is_meter) return;
    walk(*function, [&](const Node& node) {
      if (&node != function && node.is_function()) return false;
      if (const auto growth = growth_of(node)) grow(*growth, *function, self, object);
      if (!node.is(Kind::call)) return true;
      const std::string inner = receiver_of(node);
      enter(node, inner == self && !self.empty() ? object : inner, depth + 1);
      return true;
    });
  }

  void grow(const Growth& growth, const Node& function, const std::string& self, const std::string& object) {
    const Node* container = growth.container;
    const bool of_object = container->is(Kind::attribute) && container->child("value")->is(Kind::name) &&
                           container->child("value")->text == self && !self.empty();
    const int place = w_.names.place(container);
    const bool of_module = container->is(Kind::name) && place >= 0 && w_.names.scope(place)->is(Kind::module);
    if ((!of_object && !of_module) || !has_number(growth, function)) return;
    if (!is_read(*container, place) || (of_object && object.empty())) return;
    const std::string name =
        of_object ? named(object, function) + "." + std::string(container->text) : w_.text(*container);
    if (!joined_.insert(name).second) return;
    const bool averages = growth.kind == Growth::Kind::average;
    if (averages ? !is_arithmetic(*growth.value) : mentions(*growth.value, place))
      return leave_numbers(
          w_, statement_of(container), *container,
          "each process would change this number by its own batches, in a way that is no sum, so the numbers of the processes cannot be joined; collect the numbers of the batches in a list, and compute it from them after the loop");
    if (growth.kind == Growth::Kind::sum && !starts_at_zero(place))
      return leave_numbers(
          w_, statement_of(container), *container,
          "this sum begins with another number than 0, which each process would add; begin with 0, and add that number after the loop");
    if (!averages && !starts_anew(*container, place))
      return leave_numbers(
          w_, statement_of(container), *container,
          "each process collects the numbers of its own batches here, those of all epochs; create or clear it before the loop, in the same block, so that the numbers of an epoch can be joined");
    const std::vector<std::string> lines = joining(growth.kind, name);
    w_.edits.after(*loop_.loop, for_shares(w_, loop_, lines));
    w_.edits.explain(loop_.loop->line, lines.back(),
                     "each process has collected the numbers of its own batches");
  }

  /// The model itself may be in its wrapper.
  std::string named(const std::string& object, const Node& function) const {
    const bool wrapped = !w_.dialect.is_horovod() && object != "self" &&
                         w_.names.derives(class_of(&function), {"torch.nn.Module"});
    return wrapped ? "getattr(" + object + ", \"module\", " + object + ")" : object;
  }

  std::vector<std::string> joining(Growth::Kind kind, const std::string& name) {
    const Node* at = loop_.loop;
    switch (kind) {
      case Growth::Kind::sum: return {name + " = " + sum_over_ranks(w_, at) + "(" + name + ")"};
      case Growth::Kind::average: return {name + " = " + mean_over_ranks(w_, at, name)};
      case Growth::Kind::list: return {name + "[:] = " + gather_over_ranks(w_, at) + "(" + name + ")"};
      case Growth::Kind::table_of_sums: {
        const std::string key = w_.names.fresh("key");
        return {for_each_key(key, name), "    " + name + "[" + key + "] = " + sum_over_ranks(w_, at) + "(" +
                                             name + ".get(" + key + ", 0))"};
      }
      case Growth::Kind::table_of_lists: {
        const std::string key = w_.names.fresh("key");
        return {for_each_key(key, name), "    " + name + "[" + key + "] = " + gather_over_ranks(w_, at) +
                                             "(" + name + ".get(" + key + ", []))"};
      }
    }
    return {};
  }

  /// The processes may have other keys, and in another order: all go through those of all.
  std::string for_each_key(const std::string& key, const std::string& name) {
    return "for " + key + " in sorted(set(" + gather_over_ranks(w_, loop_.loop) + "(" + name +
           ")), key=str):";
  }

  /// Whether a value mentions a variable.
  bool mentions(const Node& value, int place) const {
    return contains(value, [&](const Node& node) { return place >= 0 && w_.names.place(&node) == place; });
  }

  /// Whether a value adds and multiplies numbers, and calls nothing but methods as in `loss.item()`.
  static bool is_arithmetic(const Node& value) {
    return value.is(Kind::bin_op) && !contains(value, [](const Node& node) {
             return node.is(Kind::call) && !node.child("func")->is(Kind::attribute);
           });
  }

  bool has_number(const Growth& growth, const Node& function) const {
    if (growth.kind != Growth::Kind::average) return is_number(*growth.value, function);
    return contains(*growth.value, [&](const Node& node) { return is_number(node, function); });
  }

  /// Whether a value of a step is a number of its batch.
  bool is_number(const Node& value, const Node& function) const {
    if (is_number_of_batch(w_.names, value)) return true;
    if (!value.is(Kind::name)) return false;
    const auto& values = w_.names.values(w_.names.place(&value));
    return std::any_of(values.begin(), values.end(), [&](const Value& one) {
      return (is_inside(one.node, &function) || w_.names.is_parameter(w_.names.place(&value))) &&
             is_number_of_batch(w_.names, *one.node);
    });
  }

  /// Whether anything reads the container, but to add to it or to clear it.
  bool is_read(const Node& container, int place) const {
    if (place < 0) return false;
    const auto& mentions = w_.names.mentions(place);
    return std::any_of(mentions.begin(), mentions.end(), [&](const Node* mention) {
      const Node* statement = statement_of(mention);
      const bool clears = mention->parent->is(Kind::attribute) && mention->parent->text == "clear";
      return !mention->store && !clears && !growth_of(*statement) && mention != &container;
    });
  }

  bool starts_at_zero(int place) const {
    const auto& all = w_.names.mentions(place);
    return std::all_of(all.begin(), all.end(), [&](const Node* mention) {
      const Node* statement = statement_of(mention);
      if (!mention->store || !statement->is(Kind::assign)) return true;
      const Node* value = statement->child("value");
      return !value->is(Kind::constant) || value->literal != Literal::number ||
             value->text.find_first_not_of("0.") == std::string_view::npos;
    });
  }

  /// Whether the container is created or cleared before each run of the loop, there or in a function called
  /// there.
  bool starts_anew(const Node& container, int place) const {
    const auto renews = [&](const Node* mention) {
      const bool clears = mention->parent->is(Kind::attribute) && mention->parent->text == "clear";
      const bool entry = mention->parent->is(Kind::subscript) && mention->parent->store &&
                         statement_of(mention)->is(Kind::assign);
      return (mention->store && statement_of(mention)->is(Kind::assign)) || clears || entry;
    };
    for (const Node* mention : w_.names.mentions(place)) {
      if (!renews(mention) || is_inside(mention, statement_of(&container))) continue;
      if (is_before(statement_of(mention))) return true;
      const Node* method = function_of(mention);
      if (method == nullptr) continue;
      const auto& calls = w_.names.calls_of(method);
      if (std::any_of(calls.begin(), calls.end(),
                      [&](const Node* call) { return is_before(statement_of(call)); }))
        return true;
    }
    return false;
  }

  bool is_before(const Node* statement) const {
    return statement->begin < loop_.loop->begin && function_of(statement) == function_of(loop_.loop) &&
           module_of(statement) == module_of(loop_.loop) && same_repetition(statement, loop_.loop);
  }

  TorchWeaving& w_;
  const TorchLoop& loop_;
  std::set<std::pair<const Node*, std::string>> entered_;
  std::set<std::string> joined_;
};

}  // namespace

void write_step_logs(TorchWeaving& weaving) {
  for (const TorchLoop& loop : weaving.program.loops) {
    if (loop.trains && sees_share(weaving, loop)) StepLogs(weaving, loop).write();
  }
}

}  // namespace telar::weave
