// --warmup: over the first epochs, the rate grows from the script's rate to the rate of all processes (Goyal
// and others, 2017), by a LinearLR in addition to the script's own schedule.
#include <algorithm>
#include <array>
#include <set>

#include "telar/weave/torch/writer.h"

namespace telar::weave {

namespace {

class WarmUp {
 public:
  explicit WarmUp(TorchWeaving& weaving) : w_(weaving), loop_(only_loop()) {}

  void write() {
    for (const Node* scheduler : w_.program.schedulers) check_scheduler(scheduler);
    for (const Node* rate : rates_by_hand(w_.names)) {
      w_.refuse(statement_of(rate),
                "this and a warm-up would both set the learning rate; weave without --warmup");
    }
    check_resume();
    check_loop();
    for (const TorchOptimizer& optimizer : w_.program.optimizers) {
      if (grows(optimizer) && !warmed_.contains(optimizer.call)) write(optimizer);
    }
    if (warmed_.empty())
      w_.refuse(w_.program.optimizers.front().call,
                "its learning rate does not grow; weave without --warmup");
  }

 private:
  /// The rates of LBFGS and Rprop do not change.
  static bool grows(const TorchOptimizer& optimizer) {
    return optimizer.name != "LBFGS" && optimizer.name != "Rprop";
  }

  const Node* only_loop() const {
    const Node* found = nullptr;
    for (const TorchLoop& loop : w_.program.loops) {
      if (!loop.trains) continue;
      const auto around = epoch_loops(w_.names, loop);
      if (around.empty())
        w_.refuse(
            loop.loop,
            "no loop that counts epochs is found around this training loop; write `for epoch in range(…)`, or weave without --warmup");
      for (const Node* one : around) {
        if (found != nullptr && found != one)
          w_.refuse(
              one->child(one->is(Kind::for_) ? "iter" : "test"),
              "this is a second loop over epochs, so it is not clear in which one the rate should grow; weave without --warmup");
        found = one;
      }
    }
    return found;
  }

  /// Schedules that multiply the current rate can be combined with another one, if both count epochs.
  void check_scheduler(const Node* call) const {
    static constexpr std::array<std::string_view, 5> multiply = {"StepLR", "MultiStepLR", "ExponentialLR",
                                                                 "MultiplicativeLR", "CosineAnnealingLR"};
    const std::string name =
        w_.names.callee(call).substr(std::string_view("torch.optim.lr_scheduler.").size());
    if (std::find(multiply.begin(), multiply.end(), name) == multiply.end())
      w_.refuse(call, name + " and a warm-up would both set the learning rate; weave without --warmup");
    const Node* least = name == "CosineAnnealingLR" ? w_.names.argument(call, "eta_min", 2) : nullptr;
    if (least != nullptr && least->text != "0" && least->text != "0.0" && least->text != "0.") {
      w_.refuse(
          call,
          "the meaning of its eta_min while the rate still grows is not clear; leave eta_min out, or weave without --warmup");
    }
    if (steps_each_batch(w_, call))
      w_.refuse(call,
                name + " is stepped with every batch, a warm-up with every epoch; weave without --warmup");
  }

  void check_resume() const {
    for (const Node* call : w_.names.calls()) {
      const Node* function = call->child("func");
      if (!function->is(Kind::attribute) || function->text != "load_state_dict") continue;
      for (const Node* origin : w_.names.origins(function->child("value"))) {
        if (is_optimizer(origin))
          w_.refuse(
              call,
              "training that continues from a checkpoint would warm up a second time; weave without --warmup");
      }
    }
  }

  void check_loop() const {
    walk(*loop_, [&](const Node& node) {
      if (node.is(Kind::continue_) && loop_around(&node) == loop_) {
        w_.refuse(
            &node,
            "an epoch that ends here would not count for the warm-up, which is stepped at the end of the loop's body; use an `if` instead, or weave without --warmup");
      }
      return true;
    });
    const Node* outer = loop_around(loop_);
    for (const TorchOptimizer& optimizer : w_.program.optimizers) {
      if (outer != nullptr && !is_inside(optimizer.call, outer))
        w_.refuse(
            outer->child(outer->is(Kind::for_) ? "iter" : "test"),
            "this loop runs through the epochs several times with one optimizer, whose rate should grow only once; weave without --warmup");
    }
  }

  bool is_optimizer(const Node* origin) const {
    return std::any_of(w_.program.optimizers.begin(), w_.program.optimizers.end(),
                       [&](const TorchOptimizer& one) { return one.call == origin; });
  }

  /// Whether a variable has been assigned before the loop begins.
  bool is_bound(const Node* expression) const {
    while (expression->is(Kind::attribute)) expression = expression->child("value");
    const int place = w_.names.place(expression);
    if (place < 0) return false;
    if (w_.names.is_parameter(place)) return true;
    if (function_of(loop_) != nullptr && w_.names.scope(place)->is(Kind::module)) return true;
    const auto mentions = w_.names.mentions(place);
    return std::any_of(mentions.begin(), mentions.end(),
                       [&](const Node* one) { return one->store && one->begin < loop_->begin; });
  }

  bool is_here(const Node* node) const {
    return node->begin < loop_->end && function_of(node) == function_of(loop_) &&
           module_of(node) == module_of(loop_) && class_of(node) == class_of(loop_);
  }

  /// Whether a node is an attribute of this object (`self.optimizer`), set in another method of the class
  /// whose method contains the loop.
  bool is_of_this_object(const Node* node) const {
    const Node* mine = class_of(loop_);
    if (mine == nullptr || function_of(loop_) == nullptr || !node->is(Kind::attribute)) return false;
    const Node* object = node->child("value");
    const auto& parameters = function_of(loop_)->child("args")->list("args");
    if (!object->is(Kind::name) || parameters.empty() || object->text != parameters[0]->text) return false;
    const int place = w_.names.place(node);
    return place >= 0 && module_of(node) == module_of(loop_) &&
           (class_of(node) == mine || w_.names.scope(place) == mine);
  }

  /// An expression at the loop that holds this optimizer and nothing but optimizers; null if there is none.
  const Node* visible(const Node* call, std::vector<const Node*>& origins) const {
    for (const Node& node : w_.names.tree().nodes()) {
      if (!node.is(Kind::name) && !node.is(Kind::attribute)) continue;
      if (node.inside_fstring || !(is_here(&node) || is_of_this_object(&node))) continue;
      origins = w_.names.origins(&node);
      if (std::find(origins.begin(), origins.end(), call) == origins.end()) continue;
      const bool only = std::all_of(origins.begin(), origins.end(),
                                    [&](const Node* origin) { return is_optimizer(origin); });
      if (only && is_bound(&node)) return &node;
    }
    return nullptr;
  }

  void write(const TorchOptimizer& optimizer) {
    std::vector<const Node*> origins;
    const Node* expression = visible(optimizer.call, origins);
    if (expression == nullptr)
      w_.refuse(
          optimizer.call,
          "it has no name where the loop over epochs begins; keep it in a variable that is visible there, or weave without --warmup");
    warmed_.insert(origins.begin(), origins.end());
    std::string name = w_.names.fresh(written_ == 0 ? "warmup" : "warmup_" + std::to_string(written_ + 1));
    ++written_;
    const std::string size = w_.dialect.size(loop_);
    const int epochs = w_.dialect.choices().warmup_epochs;
    w_.edits.before(*loop_, {name + " = " + w_.dialect.module_name("torch", loop_) +
                             ".optim.lr_scheduler.LinearLR(" + w_.text(*expression) + ", start_factor=1 / " +
                             size + ", total_iters=" + std::to_string(epochs) + ")"});
    w_.edits.after(*loop_->list("body").back(), {name + ".step()"});
    w_.edits.explain(loop_->line, "the learning rate warms up, " + name + ".step() at the end of each epoch",
                     "it grows from the script's rate to the rate of all processes over " +
                         std::to_string(epochs) + (epochs == 1 ? " epoch" : " epochs"));
  }

  TorchWeaving& w_;
  const Node* loop_;
  std::set<const Node*> warmed_;  ///< calls that create optimizers
  int written_ = 0;
};

}  // namespace

void write_warm_up(TorchWeaving& weaving) { WarmUp(weaving).write(); }

}  // namespace telar::weave
