// Sums that a loop computes over its samples cover one process's share; they are added up over the processes.
#include <algorithm>
#include <optional>
#include <set>

#include "telar/weave/torch/values.h"

namespace telar::weave {

namespace {

/// `x / y` or `x /= y`, and the function that contains it.
struct Division {
  const Node* node = nullptr;
  const Node* function = nullptr;
};

/// A target that a loop adds to: `x += …`, `x = x + …`, `x.append(…)`.
struct Sum {
  const Node* target = nullptr;
  std::string text;
  bool is_list = false;
};

class Metrics {
 public:
  explicit Metrics(TorchWeaving& weaving) : w_(weaving), tree_(weaving.names.tree()) {
    for (const Node& node : tree_.nodes()) {
      const bool divides = node.is(Kind::bin_op) || node.is(Kind::aug_assign);
      if (divides && node.child("op")->is(Kind::div)) divisions_.push_back({&node, function_of(&node)});
    }
  }

  void write() {
    for (const TorchLoop& loop : w_.program.loops) {
      if (sees_share(w_, loop)) write(loop);
    }
    for (const Node* call : w_.names.calls()) write_closure(call);
  }

 private:
  bool divides_epochs() const { return w_.dialect.choices().divide_epochs; }

  std::vector<Sum> sums(const TorchLoop& loop) const {
    const BatchValues batch(w_.names, loop, true);
    std::vector<Sum> found;
    const auto add = [&](const Node* target, const Node* value, bool is_list) {
      if (!batch.are_in(*value)) return;
      const std::string text = w_.text(*target);
      for (const Sum& known : found) {
        if (known.text == text) return;
      }
      found.push_back({target, text, is_list});
    };
    walk(*loop.loop, [&](const Node& node) {
      if (node.is_function() || node.is(Kind::lambda)) return false;
      if (node.is(Kind::aug_assign) && node.child("op")->is(Kind::add) && !w_.counted.contains(&node)) {
        add(node.child("target"), node.child("value"), node.child("value")->is(Kind::list));
      }
      if (node.is(Kind::assign) && node.child("value")->is(Kind::bin_op) &&
          node.child("value")->child("op")->is(Kind::add)) {
        const Node* target = node.list("targets")[0];
        if (w_.text(*node.child("value")->child("left")) == w_.text(*target))
          add(target, node.child("value")->child("right"), false);
      }
      if (node.is(Kind::call) && node.child("func")->is(Kind::attribute) && node.list("args").size() == 1 &&
          (node.child("func")->text == "append" || node.child("func")->text == "extend") &&
          node.parent->is(Kind::expr)) {
        add(node.child("func")->child("value"), node.list("args")[0], true);
      }
      return true;
    });
    return found;
  }

  /// Expressions with the same text as a target, in the function that contains the loop.
  std::vector<const Node*> mentions(const Sum& sum, const TorchLoop& loop) const {
    std::vector<const Node*> found;
    const Node* function = function_of(loop.loop);
    const Node* within = function != nullptr ? function : module_of(loop.loop);
    walk(*within, [&](const Node& node) {
      if (node.is(sum.target->kind) && w_.text(node) == sum.text) found.push_back(&node);
      return true;
    });
    return found;
  }

  void write(const TorchLoop& loop) {
    std::vector<std::string> text;
    for (const Sum& sum : sums(loop)) {
      bool used_after = false;
      bool reset_inside = false;
      const Node* started = nullptr;
      for (const Node* mention : mentions(sum, loop)) {
        const bool inside = is_inside(mention, loop.loop);
        const bool fresh =
            mention->store && mention->parent->is(Kind::assign) && !adds_to_itself(mention, sum);
        const bool fresh_in_tuple = mention->store && mention->parent->is(Kind::tuple);
        if (inside && (fresh || fresh_in_tuple)) reset_inside = true;
        if (!inside && mention->begin < loop.loop->begin && (fresh || fresh_in_tuple))
          started = statement_of(mention);
        if (!inside && mention->begin > loop.loop->end && !mention->store) used_after = true;
      }
      if (const Node* table = table_of(sum)) {
        for (const Node* mention : mentions_around(w_.names, loop.loop, tree_.text(*table))) {
          if (mention->store && mention->begin < loop.loop->begin) started = statement_of(mention);
          used_after = used_after || (!mention->store && mention->begin > loop.loop->end);
        }
      }
      const bool outlives = !sum.target->is(Kind::name);
      const bool started_here = started != nullptr && same_repetition(started, loop.loop);
      if (reset_inside || (!used_after && !(outlives && started_here))) continue;
      if (!started_here) {
        if (sum.is_list) continue;  // of this process's own batches
        leave_numbers(
            w_, sum.target, *sum.target,
            "it is summed over the samples of several loops, but each process sees only its share; set it to zero before the loop, in the same block");
        continue;
      }
      const std::optional<std::string> line = reduction(sum, loop);
      if (!line) continue;
      text.push_back(*line);
      w_.edits.explain(
          loop.loop->line, text.back(),
          divides_epochs()
              ? "each process saw all samples; the result is the mean over the processes"
              : "each process added up its own samples; the script's result is that of all samples");
    }
    if (text.empty()) return;
    w_.dialect.use(loop.loop);
    w_.edits.after(*loop.loop, for_shares(w_, loop, text));
  }

  /// The table of `totals["loss"] += …`; null for any other target.
  static const Node* table_of(const Sum& sum) {
    if (!sum.target->is(Kind::subscript)) return nullptr;
    const Node* table = sum.target->child("value");
    return table->is(Kind::name) || table->is(Kind::attribute) ? table : nullptr;
  }

  /// All entries of a table are added up if the loop computes the key: `totals[name] += value`.
  std::optional<std::string> reduction_of_table(const Sum& sum, const TorchLoop& loop) {
    const Node* table = sum.target->child("value");
    const std::string text = w_.text(*table);
    const std::string value =
        sum_over_ranks(w_, loop.loop) + "(value)" +
        (divides_epochs() || is_mean(sum, loop) ? " / " + w_.dialect.size(loop.loop) : "");
    for (const Node* origin : w_.names.origins(table)) {
      const std::string made = origin->is(Kind::call) ? w_.names.callee(origin) : "";
      if (origin->is(Kind::dict) || origin->is(Kind::dict_comp) || made == "dict" ||
          made == "collections.defaultdict")
        return text + ".update({key: " + value + " for key, value in " + text + ".items()})";
      if (origin->is(Kind::list) || origin->is(Kind::list_comp) || origin->is(Kind::bin_op))
        return text + "[:] = [" + value + " for value in " + text + "]";
    }
    leave_numbers(
        w_, sum.target, *sum.target,
        "each process adds up its own samples in this table, and weave does not know its kind; create it as a dictionary or list, or add up in variables");
    return std::nullopt;
  }

  bool adds_to_itself(const Node* mention, const Sum& sum) const {
    bool found = false;
    walk(*mention->parent->child("value"), [&](const Node& node) {
      found = found || (node.is(sum.target->kind) && w_.text(node) == sum.text);
      return true;
    });
    return found;
  }

  /// The line that joins it; nothing if it stays as it is.
  std::optional<std::string> reduction(const Sum& sum, const TorchLoop& loop) {
    w_.dialect.use(loop.loop);
    if (sum.is_list && divides_epochs()) {
      leave_numbers(
          w_, sum.target, *sum.target,
          "each process fills this list from all samples, so together they would contain each sample several times; add up a number instead, or weave with --epochs keep");
      return std::nullopt;
    }
    if (sum.is_list && is_mean(sum, loop)) {
      leave_numbers(
          w_, sum.target, *sum.target,
          "the sum of this list is divided by a number of batches, of which each process has its share, but the list will contain those of all processes; divide by the length of the list");
      return std::nullopt;
    }
    const Node* key = table_of(sum) != nullptr ? sum.target->child("slice") : nullptr;
    if (key != nullptr && !sum.is_list && !key->is(Kind::constant)) return reduction_of_table(sum, loop);
    if (sum.is_list) return sum.text + " = " + gather_over_ranks(w_, loop.loop) + "(" + sum.text + ")";
    const std::string call = sum_over_ranks(w_, loop.loop) + "(" + sum.text + ")";
    return sum.text + " = " + call +
           (divides_epochs() || is_mean(sum, loop) ? " / " + w_.dialect.size(loop.loop) : "");
  }

  /// Whether the sum is divided by a number of batches, of which each process had its share.
  bool is_mean(const Sum& sum, const TorchLoop& loop) const {
    const Node* function = function_of(loop.loop);
    std::set<std::string_view> results;  // targets of the sum in callers
    for (const Node* call : function == nullptr ? std::vector<const Node*>() : w_.names.calls_of(function)) {
      const Node* statement = statement_of(call);
      if (statement->is(Kind::assign)) results.insert(tree_.text(*statement->list("targets")[0]));
    }
    const auto holds_sum = [&](const Node* expression, bool here) {
      bool found = false;
      walk(*expression, [&](const Node& node) {
        if (node.is(Kind::name) || node.is(Kind::attribute) || node.is(Kind::subscript)) {
          const std::string_view text = tree_.text(node);
          found = found || (here ? text == sum.text : results.contains(text));
        }
        found = found || (!here && node.is(Kind::call) && function != nullptr &&
                          w_.names.called_function(&node) == function);
        return !found;
      });
      return found;
    };
    for (const auto& [node, around] : divisions_) {
      const bool assigns = node->is(Kind::aug_assign);
      const Node* left = node->child(assigns ? "target" : "left");
      const Node* right = node->child(assigns ? "value" : "right");
      const bool here = around == function;
      if ((holds_sum(left, here) || is_entry(left, sum)) && !is_inside(node, loop.loop) &&
          counts_batches(right, loop))
        return true;
    }
    return false;
  }

  /// Whether a name is an entry of the sum's table: `for name, value in totals.items()`.
  bool is_entry(const Node* expression, const Sum& sum) const {
    const Node* table = table_of(sum);
    if (table == nullptr || !expression->is(Kind::name)) return false;
    const auto& values = w_.names.values(w_.names.place(expression));
    return std::any_of(values.begin(), values.end(), [&](const Value& value) {
      return value.element && tree_.text(*value.node).starts_with(tree_.text(*table));
    });
  }

  /// len(loader), a variable that holds it, the index of enumerate, or a counter that increases by one with
  /// each batch.
  bool counts_batches(const Node* expression, const TorchLoop& loop, int depth = 3) const {
    bool found = false;
    walk(*expression, [&](const Node& node) {
      if (found) return false;
      if (node.is(Kind::call) && w_.names.qualified(node.child("func")) == "len" &&
          !node.list("args").empty()) {
        const Node* of = node.list("args")[0];
        if (of->is(Kind::attribute) && of->text == "sampler") of = of->child("value");
        for (const Node* origin : w_.names.origins(of)) {
          found = found || w_.program.loader_of(origin) != nullptr;
        }
        return false;
      }
      if (!node.is(Kind::name)) return true;
      if (loop.index != nullptr && loop.index->is(Kind::name) && node.text == loop.index->text) found = true;
      const int place = w_.names.place(&node);
      for (const Value& value : w_.names.values(place)) {
        if (value.augmented && value.node->literal == Literal::number && is_inside(value.node, loop.loop))
          found = true;
        if (!value.augmented && !value.element && depth > 0 && !value.node->is(Kind::class_def) &&
            !value.node->is_function()) {
          found = found || counts_batches(value.node, loop, depth - 1);
        }
      }
      return true;
    });
    return found;
  }

  /// LBFGS compares the losses that its closure returns: all processes must see the same values.
  void write_closure(const Node* call) {
    const Node* function = call->child("func");
    if (!function->is(Kind::attribute) || function->text != "step" || call->list("args").empty()) return;
    const Node* closure = w_.names.definition(call->list("args")[0]);
    if (closure == nullptr || !reaches(w_.names, closure, is_backward)) return;
    if (!w_.program.shares.empty()) return;  // whose loss is the mean already
    walk(*closure, [&](const Node& node) {
      if (!node.is(Kind::return_) || node.child("value") == nullptr) return true;
      const Node* value = node.child("value");
      w_.edits.replace(*value,
                       sum_over_ranks(w_, value) + "(" + w_.text(*value) + ") / " + w_.dialect.size(value));
      w_.edits.explain(node.line, "the closure returns the mean loss of all processes",
                       "the optimizer uses it for decisions, which must agree");
      return true;
    });
  }

  TorchWeaving& w_;
  const Tree& tree_;
  std::vector<Division> divisions_;
};

}  // namespace

void write_metrics(TorchWeaving& weaving) { Metrics(weaving).write(); }

}  // namespace telar::weave
