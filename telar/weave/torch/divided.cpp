// --epochs divide: each process trains on all samples in its own order, and the number of epochs is divided
// by the number of processes, as in document 001.
#include <algorithm>
#include <set>

#include "telar/weave/torch/writer.h"

namespace telar::weave {

namespace {

constexpr const char* kKeep = "; weave with --epochs keep";

class Divided {
 public:
  explicit Divided(TorchWeaving& weaving) : w_(weaving) {}

  void write() {
    for (const TorchLoader& loader : w_.program.loaders) {
      if (loader.trains) check_loader(loader.call);
    }
    for (const Node* call : w_.program.schedulers) {
      // It decides by a metric, not by counting epochs.
      if (!w_.names.callee(call).ends_with(".ReduceLROnPlateau")) refuse_plan(call);
    }
    for (const Node* rate : rates_by_hand(w_.names)) refuse_plan(statement_of(rate));
    for (const TorchLoop& loop : w_.program.loops) {
      if (!loop.trains) continue;
      const auto around = epoch_loops(w_.names, loop);
      if (around.empty()) {
        w_.refuse(
            loop.loop,
            std::string(
                "no loop `for epoch in range(…)` is found around this training loop, so there are no epochs to divide") +
                kKeep);
      }
      for (const Node* one : around) {
        if (done_.insert(one).second) divide(one);
      }
    }
  }

 private:
  [[noreturn]] void refuse_plan(const Node* node) const {
    w_.refuse(node,
              std::string("it depends on the script's number of epochs, but each process has fewer") + kKeep);
  }

  /// Each process must draw the samples in a different order.
  void check_loader(const Node* call) const {
    if (w_.names.argument(call, "batch_sampler", -1) != nullptr) {
      w_.refuse(call, std::string(
                          "it is not known whether a batch_sampler draws a different order in each process") +
                          kKeep);
    }
    if (w_.names.keyword(call, "generator") != nullptr) refuse_generator(call);
    const Node* sampler = w_.names.argument(call, "sampler", 3);
    if (sampler != nullptr && sampler->literal != Literal::null) return check_sampler(call, sampler);
    const Node* shuffle = w_.names.argument(call, "shuffle", 2);
    if (shuffle == nullptr || shuffle->text == "False") {
      w_.refuse(
          call,
          std::string(
              "it does not shuffle, so all processes would train on the same batch at the same time; pass shuffle=True directly, or weave with --epochs keep"));
    }
  }

  void check_sampler(const Node* call, const Node* sampler) const {
    static const std::set<std::string_view> draw = {"torch.utils.data.RandomSampler",
                                                    "torch.utils.data.SubsetRandomSampler",
                                                    "torch.utils.data.WeightedRandomSampler"};
    for (const Node* origin : w_.names.origins(sampler)) {
      if (!origin->is(Kind::call) || !draw.contains(w_.names.callee(origin))) {
        w_.refuse(
            call,
            std::string(
                "it is not known whether its sampler draws a different order in each process; RandomSampler, SubsetRandomSampler and WeightedRandomSampler do") +
                kKeep);
      }
      if (w_.names.keyword(origin, "generator") != nullptr) refuse_generator(origin);
    }
  }

  [[noreturn]] void refuse_generator(const Node* call) const {
    w_.refuse(
        call,
        std::string(
            "remove its generator, which would draw the same order in every process, or weave with --epochs keep"));
  }

  void divide(const Node* loop) {
    check_body(loop);
    const Node* range = nullptr;
    if (loop->is(Kind::for_)) {
      walk(*loop->child("iter"), [&](const Node& node) {
        if (node.is(Kind::call)) {
          const std::string callee = w_.names.qualified(node.child("func"));
          if (range == nullptr && (callee == "range" || callee.ends_with("trange"))) range = &node;
        }
        return range == nullptr;
      });
    }
    if (range == nullptr) {
      w_.refuse(
          loop->child(loop->is(Kind::for_) ? "iter" : "test"),
          std::string(
              "the number of epochs cannot be determined; write `for epoch in range(…)`, or weave with --epochs keep"));
    }
    const auto& given = range->list("args");
    const bool plain =
        !given.empty() && given.size() <= 2 &&
        std::none_of(given.begin(), given.end(), [](const Node* one) { return one->is(Kind::starred); });
    if (!plain)
      w_.refuse(range, std::string("pass only the first and the last epoch, without a step") + kKeep);
    const Node* first = given.size() == 2 ? given[0] : nullptr;
    if (first != nullptr && first->literal != Literal::number) {
      w_.refuse(first,
                std::string("the number of remaining epochs cannot be divided among the processes") + kKeep);
    }
    write_range(loop, first, given.back());
  }

  void write_range(const Node* loop, const Node* first, const Node* end) {
    check_uses(end);
    if (first == nullptr && end->text == "1")
      w_.refuse(loop->child("iter"), std::string("it is one epoch, which cannot be divided") + kKeep);
    const std::string size = w_.dialect.size(loop);
    const std::string ceil = w_.dialect.module_name("math", loop) + ".ceil(";
    const Tree& tree = w_.names.tree();
    if (first == nullptr || first->text == "0") {
      w_.edits.replace(*end, ceil + quotient(tree, *end, size) + ")");
    } else if (end->is(Kind::bin_op) && end->child("op")->is(Kind::add) &&
               end->child("right")->text == first->text) {
      const Node* count = end->child("left");  // range(1, epochs + 1)
      w_.edits.replace(*count, ceil + quotient(tree, *count, size) + ")");
    } else {
      const std::string start(first->text);
      w_.edits.replace(*end,
                       start + " + " + ceil + "(" + w_.text(*end) + " - " + start + ") / " + size + ")");
    }
    w_.edits.explain(loop->line, "epochs ÷ number of processes",
                     "each process sees all samples, so together they see each sample as often as before");
  }

  /// Code for a certain epoch would run too late or never.
  void check_body(const Node* loop) const {
    const auto seeds = [&](const Node* call) {
      return w_.names.callee(call) == "torch.manual_seed" ||
             w_.names.callee(call) == "torch.random.manual_seed";
    };
    for (const Node* statement : loop->list("body")) {
      if (reaches(w_.names, statement, seeds)) {
        w_.refuse(
            loop->child(loop->is(Kind::for_) ? "iter" : "test"),
            std::string("torch.manual_seed in this loop would give all processes the same order of samples") +
                kKeep);
      }
    }
    const std::string_view counter = counter_of(w_.names, loop);
    if (loop->is(Kind::for_) && loop->child("target")->is(Kind::attribute))
      w_.refuse(
          loop->child("target"),
          std::string("what else uses this counter of epochs cannot be seen; count them in a variable") +
              kKeep);
    for (const Node* statement : loop->list("body")) check_plan(statement, counter, 3);
  }

  void check_plan(const Node* within, std::string_view counter, int depth) const {
    walk(*within, [&](const Node& node) {
      if (node.is(Kind::compare)) {
        const auto& others = node.list("comparators");
        const bool from_start = others.size() == 1 && others[0]->text == "0";
        if (!from_start && goes_by(node, counter)) refuse_plan(&node);
      }
      const Node* function = depth > 0 && node.is(Kind::call) ? w_.names.called_function(&node) : nullptr;
      if (function == nullptr) return true;
      for (const Node* parameter : function->child("args")->list("args")) {
        for (const Value& value : w_.names.values(w_.names.place(parameter))) {
          if (value.node->is(Kind::name) && value.node->text == counter && is_inside(value.node, &node))
            check_plan(function, parameter->text, depth - 1);
        }
      }
      return true;
    });
  }

  /// Whether a comparison depends on the counter itself. `epoch % 10` keeps its frequency relative to the
  /// number of epochs.
  static bool goes_by(const Node& compare, std::string_view counter) {
    bool found = false;
    walk(compare, [&](const Node& node) {
      if (node.is(Kind::bin_op) && node.child("op")->is(Kind::mod)) return false;
      found = found || (node.is(Kind::name) && node.text == counter);
      return true;
    });
    return found;
  }

  /// The number of epochs must not be compared elsewhere with a counter that now ends earlier.
  void check_uses(const Node* end) const {
    walk(*end, [&](const Node& part) {
      if (!part.is(Kind::name) && !part.is(Kind::attribute)) return true;
      const std::string text = w_.text(part);
      for (const Node& node : w_.names.tree().nodes()) {
        if (node.kind != part.kind || module_of(&node) != module_of(end) || w_.text(node) != text) continue;
        for (const Node* around = node.parent; around != nullptr && !around->is_statement();
             around = around->parent) {
          if (around->is(Kind::compare)) refuse_plan(around);
        }
      }
      return false;
    });
  }

  TorchWeaving& w_;
  std::set<const Node*> done_;
};

}  // namespace

void write_divided(TorchWeaving& weaving) { Divided(weaving).write(); }

}  // namespace telar::weave
