// Each epoch has its own order of the samples, the same for all processes.
#include <algorithm>

#include "telar/weave/torch/writer.h"

namespace telar::weave {

namespace {

class Epochs {
 public:
  explicit Epochs(TorchWeaving& weaving) : w_(weaving) {}

  void write() {
    for (const TorchLoop& loop : w_.program.loops) {
      if (!loop.trains || w_.dialect.choices().divide_epochs) continue;
      if (are_shuffled(loop.loader.loaders)) write_order(loop, loop.loader);
      for (const LoaderUse& other : loop.others) {
        if (are_shuffled(other.loaders)) write_order(loop, other);
      }
    }
  }

 private:
  bool are_shuffled(const std::vector<size_t>& loaders) const {
    return std::any_of(loaders.begin(), loaders.end(), [&](size_t loader) {
      return w_.program.loaders[loader].trains && is_shuffled(loader);
    });
  }

  bool is_shuffled(size_t loader) const {
    const Node* call = w_.program.loaders[loader].call;
    const Node* sampler = w_.names.argument(call, "sampler", 3);
    if (sampler != nullptr) {
      for (const Node* origin : w_.names.origins(sampler)) {
        if (origin->is(Kind::call) && w_.names.callee(origin) == "torch.utils.data.WeightedRandomSampler")
          return false;
        if (origin->is(Kind::call) && w_.names.callee(origin) == "torch.utils.data.SequentialSampler")
          return false;
      }
      return true;
    }
    const Node* shuffle = w_.names.argument(call, "shuffle", 2);
    const bool spread = std::any_of(call->list("keywords").begin(), call->list("keywords").end(),
                                    [](const Node* keyword) { return keyword->text.empty(); });
    return spread || (shuffle != nullptr && shuffle->text != "False");
  }

  void write_order(const TorchLoop& loop, const LoaderUse& drawn) {
    const std::string loader = drawn.loader_in(w_.text(*drawn.expression));
    const bool mixed = std::any_of(drawn.loaders.begin(), drawn.loaders.end(),
                                   [&](size_t one) { return !w_.program.loaders[one].trains; });
    if (drawn.expression->is(Kind::call))
      return;  // each loop has a new loader, whose sampler has its own order
    const auto lines_for = [&](const std::string& of, const std::string& epoch, const Node* before) {
      const std::string set = of + ".sampler.set_epoch(" + epoch + ")";
      if (!mixed) return std::vector<std::string>{set};
      w_.dialect.import("from torch.utils.data.distributed import DistributedSampler", before);
      return std::vector<std::string>{"if isinstance(" + of + ".sampler, DistributedSampler):", "    " + set};
    };
    const Node* at = loop.loop;
    const auto nodes = way_out(w_.names, loop.loop);
    bool any_loop = false;
    for (size_t step = 0; step < nodes.size(); ++step) {
      const Node* around = nullptr;
      for (around = loop_around(nodes[step]); around != nullptr; around = loop_around(around)) {
        any_loop = true;
        const std::string epoch(counter_of(w_.names, around));
        if (epoch.empty()) continue;
        const std::string inner = step == 0 ? epoch : handed_down(nodes, step, epoch);
        if (!inner.empty()) {
          insert(at, lines_for(loader, inner, at));
          return;
        }
        // The function does not know the epoch; its caller does, if it also knows the loader.
        const std::string outer = handed_up(nodes, step, drawn.expression);
        if (outer.empty() && is_visible(around, epoch, at)) return insert(at, lines_for(loader, epoch, at));
        if (outer.empty()) break;
        insert(statement_of(nodes[step]), lines_for(drawn.loader_in(outer), epoch, nodes[step]));
        return;
      }
    }
    // Nothing that is known here counts the epochs.
    if (any_loop) insert(at, lines_for(loader, next_order(w_, at), at));
  }

  /// Whether the counter of a loop around a call is known in the called function, too: as a variable of the
  /// module, or of the function around both.
  bool is_visible(const Node* around, const std::string& counter, const Node* at) const {
    const Node* variable = nullptr;
    walk(*around, [&](const Node& node) {
      if (variable == nullptr && node.is(Kind::name) && node.store && node.text == counter) variable = &node;
      return variable == nullptr;
    });
    return variable != nullptr && w_.names.means_the_same(variable, at);
  }

  void insert(const Node* statement, const std::vector<std::string>& text) {
    w_.edits.before(*statement, text);
    w_.edits.explain(statement->line, "set_epoch",
                     "each epoch has a different order, the same in all processes");
  }

  /// The name that the variable `name` of the loop around nodes[step] has in the function of nodes[0]; empty
  /// if it is not passed there.
  std::string handed_down(const std::vector<const Node*>& nodes, size_t step, std::string name) const {
    for (size_t i = step; i > 0; --i) {
      const Node* function = function_of(nodes[i - 1]);
      std::string inner;
      for (const Node* parameter : function->child("args")->list("args")) {
        for (const Value& value : w_.names.values(w_.names.place(parameter))) {
          if (value.node->is(Kind::name) && value.node->text == name && is_inside(value.node, nodes[i]))
            inner = parameter->text;
        }
      }
      if (inner.empty()) return {};
      name = inner;
    }
    return name;
  }

  /// The expression at nodes[step] for the loader of nodes[0]'s function; empty if there is none.
  std::string handed_up(const std::vector<const Node*>& nodes, size_t step, const Node* loader) const {
    const Node* expression = loader;
    for (size_t i = 1; i <= step; ++i) {
      const int place = w_.names.place(expression);
      if (place < 0) return {};
      if (!w_.names.is_parameter(place)) {
        // A global variable, or an attribute of the same object.
        if (w_.names.scope(place)->is(Kind::module)) {
          if (!w_.names.means_the_same(expression, nodes[i])) return {};
          continue;
        }
        if (!w_.names.scope(place)->is(Kind::class_def) || class_of(nodes[i]) != class_of(nodes[0]))
          return {};
        continue;
      }
      const Node* given = nullptr;
      for (const Value& value : w_.names.values(place)) {
        if (is_inside(value.node, nodes[i])) given = value.node;
      }
      if (given == nullptr || given->is(Kind::call)) return {};
      expression = given;
    }
    return w_.text(*expression);
  }

  TorchWeaving& w_;
};

}  // namespace

void write_epochs(TorchWeaving& weaving) { Epochs(weaving).write(); }

std::string next_order(TorchWeaving& weaving, const Node* at) {
  const std::string orders = weaving.names.fresh("orders");
  weaving.dialect.function({orders + " = " + weaving.dialect.module_name("itertools", at) + ".count()"}, at);
  return "next(" + orders + ")";
}

}  // namespace telar::weave
