// With n processes and the script's batch in each, a step sees n times the samples, so the learning rate is
// multiplied by n.
#include <algorithm>
#include <map>
#include <unordered_set>

#include "telar/weave/torch/batch.h"
#include "telar/weave/torch/writer.h"

namespace telar::weave {

namespace {

/// The default learning rates of the optimizers in torch.optim.
const std::map<std::string, std::string>& default_rates() {
  static const std::map<std::string, std::string> rates = {
      {"Adam", "0.001"},   {"AdamW", "0.001"}, {"SparseAdam", "0.001"}, {"Adamax", "0.002"},
      {"NAdam", "0.002"},  {"RAdam", "0.001"}, {"RMSprop", "0.01"},     {"Adagrad", "0.01"},
      {"Adadelta", "1.0"}, {"ASGD", "0.01"},   {"SGD", "0.001"}};
  return rates;
}

/// Whether an expression is an element of optimizer.param_groups.
bool is_group(const Names& names, const Node* expression) {
  const auto of_optimizer = [](const Node* node) {
    return node->is(Kind::attribute) && node->text == "param_groups";
  };
  if (expression->is(Kind::subscript)) return of_optimizer(expression->child("value"));
  for (const Value& value : names.values(names.place(expression))) {
    if (value.element && of_optimizer(value.node)) return true;
  }
  return false;
}

class Rates {
 public:
  explicit Rates(TorchWeaving& weaving) : w_(weaving) {}

  void write() {
    for (const TorchOptimizer& optimizer : w_.program.optimizers) write_optimizer(optimizer);
    for (const Node* call : w_.program.schedulers) write_schedule(call);
    write_assignments();
  }

 private:
  void scale(const Node* rate) {
    if (!done_.insert(rate).second) return;
    if (rate->inside_fstring) w_.refuse(rate, "move the learning rate out of the f-string");
    w_.edits.replace(*rate, times(w_.names.tree(), *rate, w_.dialect.size(rate)));
    w_.edits.explain(rate->line, "learning rate × number of processes",
                     "each step averages over that many times as many samples");
  }

  void write_optimizer(const TorchOptimizer& optimizer) {
    // LBFGS performs a line search and Rprop uses only signs, so neither rate depends on the batch size.
    if (optimizer.name == "LBFGS" || optimizer.name == "Rprop") return;
    const Node* call = optimizer.call;
    const Node* rate = w_.names.argument(call, "lr", 1);
    write_groups(w_.names.argument(call, "params", 0));
    if (rate != nullptr) return scale(rate);
    const bool spread = std::any_of(call->list("keywords").begin(), call->list("keywords").end(),
                                    [](const Node* keyword) { return keyword->text.empty(); });
    const auto known = default_rates().find(optimizer.name);
    if (spread || known == default_rates().end()) {
      w_.refuse(call,
                "its learning rate cannot be determined; pass it as lr=…, or weave with --global-batch keep");
    }
    w_.edits.add_argument(*call, "lr=" + known->second + " * " + w_.dialect.size(call));
    w_.edits.explain(call->line, "learning rate × number of processes",
                     "each step averages over that many times as many samples");
  }

  /// Parameter groups with their own rates: [{"params": …, "lr": 0.01}, …].
  void write_groups(const Node* parameters) {
    if (parameters == nullptr) return;
    std::vector<const Node*> roots = w_.names.origins(parameters);
    roots.push_back(parameters);
    for (const Node* root : roots) {
      if (root->is(Kind::class_def)) continue;
      walk(*root, [&](const Node& node) {
        if (!node.is(Kind::dict)) return true;
        const auto& keys = node.list("keys");
        for (size_t i = 0; i < keys.size(); ++i) {
          if (keys[i] != nullptr && keys[i]->text == "lr") scale(node.list("values")[i]);
        }
        return true;
      });
    }
  }

  /// Schedules contain rates, or count steps; each epoch now has fewer steps.
  void write_schedule(const Node* call) {
    const std::string name =
        w_.names.callee(call).substr(std::string_view("torch.optim.lr_scheduler.").size());
    const auto scale_argument = [&](const char* argument, int position) {
      const Node* value = w_.names.argument(call, argument, position);
      if (value == nullptr || value->text == "0" || value->text == "0.0") return;
      if (value->is(Kind::list) || value->is(Kind::list_comp))
        w_.refuse(value, "pass a single rate, or weave with --global-batch keep");
      scale(value);
    };
    if (name == "OneCycleLR") scale_argument("max_lr", 1);
    if (name == "CyclicLR") {
      scale_argument("base_lr", 1);
      scale_argument("max_lr", 2);
    }
    if (name == "CosineAnnealingLR" || name == "CosineAnnealingWarmRestarts") {
      scale_argument("eta_min", name == "CosineAnnealingLR" ? 2 : 3);
    }
    if (name == "ReduceLROnPlateau") scale_argument("min_lr", -1);
    check_steps(call, name);
  }

  /// A schedule that is stepped with every batch is correct only if its length is computed from the loader's.
  void check_steps(const Node* call, const std::string& name) const {
    if (!steps_each_batch(w_, call)) return;
    if (name == "ReduceLROnPlateau") return check_metric(call);
    bool from_loader = false;
    const auto look = [&](const auto& self, const Node* expression, int depth) -> void {
      walk(*expression, [&](const Node& node) {
        if (node.is(Kind::call) && w_.names.qualified(node.child("func")) == "len") from_loader = true;
        if (node.is(Kind::name) && depth > 0) {
          for (const Value& value : w_.names.values(w_.names.place(&node))) {
            if (!value.node->is(Kind::class_def)) self(self, value.node, depth - 1);
          }
        }
        return !from_loader;
      });
    };
    for (const std::string_view field : {"args", "keywords"}) {
      for (const Node* given : call->list(field)) {
        if (field == "args" && given == call->list("args")[0]) continue;
        look(look, given, 4);
      }
    }
    if (!from_loader) {
      w_.refuse(
          call,
          name +
              " counts batches, of which each process has fewer in an epoch; compute its length from len(loader), step it once per epoch, or weave with --global-batch keep");
    }
  }

  /// ReduceLROnPlateau compares what its step() receives: within a loop over batches, that must be the same
  /// in all processes.
  void check_metric(const Node* scheduler) const {
    for (const Node* step : w_.names.calls()) {
      const Node* function = step->child("func");
      if (!function->is(Kind::attribute) || function->text != "step" || step->list("args").empty()) continue;
      const auto origins = w_.names.origins(function->child("value"));
      if (std::find(origins.begin(), origins.end(), scheduler) == origins.end()) continue;
      for (const TorchLoop& loop : w_.program.loops) {
        if (loop.trains && is_inside(step, loop.loop) &&
            BatchValues(w_.names, loop, false).are_in(*step->list("args")[0]))
          w_.refuse(
              step,
              "each process would reduce its learning rate by the losses of its own batches, so the rates would part; step the schedule once per epoch, with the loss of the epoch");
      }
    }
  }

  /// Scales `group["lr"] = rate`, unless the rate is computed from the current one.
  void write_assignments() {
    for (const Node* target : rates_by_hand(w_.names)) {
      const Node& node = *target->parent;
      if (!node.is(Kind::assign) || node.list("targets")[0] != target) continue;
      bool relative = false;
      walk(*node.child("value"), [&](const Node& inner) {
        relative = relative || (inner.is(Kind::subscript) && inner.child("slice")->text == "lr");
        return true;
      });
      if (!relative) scale(node.child("value"));
    }
  }

  TorchWeaving& w_;
  std::unordered_set<const Node*> done_;
};

}  // namespace

bool steps_each_batch(const TorchWeaving& weaving, const Node* scheduler) {
  for (const Node* step : weaving.names.calls()) {
    const Node* function = step->child("func");
    if (!function->is(Kind::attribute) || function->text != "step") continue;
    const auto origins = weaving.names.origins(function->child("value"));
    if (std::find(origins.begin(), origins.end(), scheduler) == origins.end()) continue;
    for (const TorchLoop& loop : weaving.program.loops) {
      if (!loop.trains) continue;
      if (is_inside(step, loop.loop) ||
          reaches(weaving.names, loop.loop, [&](const Node* call) { return call == step; }))
        return true;
    }
  }
  return false;
}

std::vector<const Node*> rates_by_hand(const Names& names) {
  std::vector<const Node*> found;
  for (const Node& node : names.tree().nodes()) {
    if (node.is(Kind::subscript) && node.store && node.child("slice")->text == "lr" &&
        is_group(names, node.child("value"))) {
      found.push_back(&node);
    }
  }
  return found;
}

void write_rates(TorchWeaving& weaving) {
  if (weaving.dialect.choices().keep_global_batch) return check_summed_losses(weaving);
  Rates(weaving).write();
}

}  // namespace telar::weave
