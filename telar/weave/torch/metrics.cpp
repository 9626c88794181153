// Sums that a loop computes over its samples cover one process's share; they are added up over the processes.
#include <algorithm>
#include <set>

#include "telar/weave/torch/writer.h"

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
      bool shared = false;
      bool whole = false;
      for (const size_t loader : loop.loaders) (w_.program.loaders[loader].trains ? shared : whole) = true;
      // If every process sees all samples, only results that depend on their order differ.
      if (shared && (loop.trains || !divides_epochs())) write(loop, whole && !divides_epochs());
    }
    for (const Node* call : w_.names.calls()) write_closure(call);
  }

 private:
  bool divides_epochs() const { return w_.dialect.choices().divide_epochs; }

  /// The names in a loop whose values depend on its batch.
  std::set<std::string_view> from_batch(const Node* loop) const {
    std::set<std::string_view> names;
    const auto bind = [&](const Node* target) {
      walk(*target, [&](const Node& node) {
        if (node.is(Kind::name)) names.insert(node.text);
        return true;
      });
    };
    bind(loop->child("target"));
    const auto mentions = [&](const Node* expression) {
      bool found = false;
      walk(*expression, [&](const Node& node) {
        found = found || (node.is(Kind::name) && names.contains(node.text));
        return !found;
      });
      return found;
    };
    for (int round = 0; round < 3; ++round) {
      walk(*loop, [&](const Node& node) {
        if (node.is(Kind::assign) && mentions(node.child("value"))) {
          for (const Node* target : node.list("targets")) bind(target);
        }
        return true;
      });
    }
    return names;
  }

  static bool uses(const Node* expression, const std::set<std::string_view>& names) {
    bool found = false;
    walk(*expression, [&](const Node& node) {
      found = found || (node.is(Kind::name) && names.contains(node.text));
      return !found;
    });
    return found;
  }

  std::vector<Sum> sums(const TorchLoop& loop) const {
    std::set<std::string_view> batch = from_batch(loop.loop);
    if (loop.index != nullptr && loop.index->is(Kind::name)) batch.erase(loop.index->text);
    std::vector<Sum> found;
    const auto add = [&](const Node* target, const Node* value, bool is_list) {
      if (!uses(value, batch)) return;
      const std::string text = w_.text(*target);
      for (const Sum& known : found) {
        if (known.text == text) return;
      }
      found.push_back({target, text, is_list});
    };
    walk(*loop.loop, [&](const Node& node) {
      if (node.is_function() || node.is(Kind::lambda)) return false;
      if (node.is(Kind::aug_assign) && node.child("op")->is(Kind::add)) {
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

  void write(const TorchLoop& loop, bool also_whole) {
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
      const bool outlives = !sum.target->is(Kind::name);
      const bool started_here = started != nullptr && same_repetition(started, loop.loop);
      if (reset_inside || (!used_after && !(outlives && started_here))) continue;
      if (!started_here) {
        if (sum.is_list) continue;  // of this process's own batches
        w_.refuse(
            sum.target,
            "it is summed over the samples of several loops, but each process sees only its share; set it to zero before the loop, in the same block");
      }
      text.push_back(reduction(sum, loop));
      w_.edits.explain(
          loop.loop->line, text.back(),
          divides_epochs()
              ? "each process saw all samples; the result is the mean over the processes"
              : "each process added up its own samples; the script's result is that of all samples");
    }
    if (text.empty()) return;
    w_.dialect.use(loop.loop);
    if (also_whole) {
      if (loop.loader->is(Kind::call)) w_.refuse(loop.loader, "keep the DataLoader in a variable");
      w_.dialect.import("from torch.utils.data.distributed import DistributedSampler", loop.loop);
      for (std::string& line : text) line.insert(0, "    ");
      text.insert(text.begin(), "if isinstance(" + w_.text(*loop.loader) + ".sampler, DistributedSampler):");
    }
    w_.edits.after(*loop.loop, text);
  }

  bool adds_to_itself(const Node* mention, const Sum& sum) const {
    bool found = false;
    walk(*mention->parent->child("value"), [&](const Node& node) {
      found = found || (node.is(sum.target->kind) && w_.text(node) == sum.text);
      return true;
    });
    return found;
  }

  /// Whether two statements run equally often, because the same loop is the nearest around both.
  static bool same_repetition(const Node* a, const Node* b) {
    const auto around = [](const Node* node) {
      for (node = node->parent;
           node != nullptr && !node->is(Kind::for_) && !node->is(Kind::while_) && !node->is_function();) {
        node = node->parent;
      }
      return node;
    };
    return around(a) == around(b);
  }

  std::string reduction(const Sum& sum, const TorchLoop& loop) {
    w_.dialect.use(loop.loop);
    if (sum.is_list && divides_epochs())
      w_.refuse(
          sum.target,
          "each process fills this list from all samples, so together they would contain each sample several times; add up a number instead, or weave with --epochs keep");
    if (sum.is_list && is_mean(sum, loop))
      w_.refuse(
          sum.target,
          "the sum of this list is divided by a number of batches, of which each process has its share, but the list will contain those of all processes; divide by the length of the list");
    if (sum.is_list) return sum.text + " = " + gather(loop.loop) + "(" + sum.text + ")";
    const std::string call = add_up(loop.loop) + "(" + sum.text + ")";
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
      if (holds_sum(left, here) && !is_inside(node, loop.loop) && counts_batches(right, loop)) return true;
    }
    return false;
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
          for (const TorchLoader& loader : w_.program.loaders) found = found || loader.call == origin;
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

  std::string add_up(const Node* at) {
    std::string name = w_.names.fresh("sum_over_ranks");
    if (w_.tensorflow) {
      const std::string tf = w_.tensorflow(at);
      const std::string& hvd = w_.dialect.module();
      w_.dialect.function({"def " + name + "(value):",
                           "    total = " + tf + ".convert_to_tensor(value, " + tf +
                               ".float64 if isinstance(value, float) else None)",
                           "    total = " + hvd + ".allreduce(total, op=" + hvd + ".Sum)",
                           "    return total if " + tf + ".is_tensor(value) else total.numpy().item()"},
                          at);
      return name;
    }
    const std::string torch = w_.dialect.module_name("torch", at);
    std::vector<std::string> text = {
        "def " + name + "(value):",
        "    total = value.detach().clone() if " + torch + ".is_tensor(value) else " + torch + ".tensor(",
        "        value, dtype=" + torch + ".float64 if isinstance(value, float) else None)",
    };
    if (w_.dialect.is_horovod()) {
      text.push_back("    total = " + w_.dialect.module() + ".allreduce(total, op=" + w_.dialect.module() +
                     ".Sum)");
    } else {
      if (w_.gpu) text.push_back("    total = total.cuda() if " + torch + ".cuda.is_available() else total");
      text.push_back("    " + w_.dialect.module() + ".all_reduce(total)");
    }
    text.push_back("    return total.to(value) if " + torch + ".is_tensor(value) else total.item()");
    w_.dialect.function(text, at);
    return name;
  }

  std::string gather(const Node* at) {
    std::string name = w_.names.fresh("gather_over_ranks");
    const std::string module = w_.dialect.module();
    if (w_.dialect.is_horovod()) {
      w_.dialect.function(
          {"def " + name + "(values):",
           "    return [value for part in " + module + ".allgather_object(list(values)) for value in part]"},
          at);
    } else {
      w_.dialect.function(
          {"def " + name + "(values):", "    parts = [None] * " + module + ".get_world_size()",
           "    " + module + ".all_gather_object(parts, list(values))",
           "    return [value for part in parts for value in part]"},
          at);
    }
    return name;
  }

  /// LBFGS compares the losses that its closure returns: all processes must see the same values.
  void write_closure(const Node* call) {
    const Node* function = call->child("func");
    if (!function->is(Kind::attribute) || function->text != "step" || call->list("args").empty()) return;
    const Node* closure = w_.names.definition(call->list("args")[0]);
    if (closure == nullptr || !reaches(w_.names, closure, is_backward)) return;
    walk(*closure, [&](const Node& node) {
      if (!node.is(Kind::return_) || node.child("value") == nullptr) return true;
      const Node* value = node.child("value");
      w_.edits.replace(*value, add_up(value) + "(" + w_.text(*value) + ") / " + w_.dialect.size(value));
      w_.edits.explain(node.line, "the closure returns the mean loss of all processes",
                       "the optimizer uses it for decisions, which must agree");
      return true;
    });
  }

  TorchWeaving& w_;
  const Tree& tree_;
  std::vector<Division> divisions_;
};

/// Whether a condition depends on any of the names; check_control_flow passes those that depend on the batch.
bool depends_on(const Node* test, const std::set<std::string_view>& names) {
  bool found = false;
  walk(*test, [&](const Node& node) {
    found = found || (node.is(Kind::name) && names.contains(node.text));
    return !found;
  });
  return found;
}

}  // namespace

void write_metrics(TorchWeaving& weaving) { Metrics(weaving).write(); }

void check_control_flow(const TorchWeaving& weaving) {
  for (const TorchLoop& loop : weaving.program.loops) {
    if (!loop.trains) continue;
    std::set<std::string_view> names;
    walk(*loop.loop->child("target"), [&](const Node& node) {
      if (node.is(Kind::name) && !(loop.index != nullptr && loop.index->text == node.text))
        names.insert(node.text);
      return true;
    });
    for (int round = 0; round < 3; ++round) {
      walk(*loop.loop, [&](const Node& node) {
        if (node.is(Kind::assign) && depends_on(node.child("value"), names)) {
          for (const Node* target : node.list("targets")) {
            walk(*target, [&](const Node& inner) {
              if (inner.is(Kind::name)) names.insert(inner.text);
              return true;
            });
          }
        }
        if (node.is(Kind::aug_assign) && node.child("target")->is(Kind::name) &&
            depends_on(node.child("value"), names)) {
          names.insert(node.child("target")->text);
        }
        return true;
      });
    }
    walk(*loop.loop, [&](const Node& node) {
      if (node.is_function() || node.is(Kind::lambda)) return false;
      if (!node.is(Kind::break_) && !node.is(Kind::continue_) && !node.is(Kind::return_)) return true;
      for (const Node* around = node.parent; around != loop.loop; around = around->parent) {
        if ((around->is(Kind::if_) || around->is(Kind::while_)) && depends_on(around->child("test"), names)) {
          weaving.refuse(
              around->child("test"),
              "whether a process continues depends on its own batch, and the others would wait for it forever; decide by something that all processes know, or after the epoch");
        }
      }
      return true;
    });
  }
}

}  // namespace telar::weave
