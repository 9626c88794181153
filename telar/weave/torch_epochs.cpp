// Each epoch has its own order of the samples, the same for all processes. Random numbers during training
// differ between them.
#include <algorithm>

#include "telar/weave/torch_writer.h"

namespace telar::weave {

namespace {

const Node* outermost_loop(const Node* node) {
  const Node* found = nullptr;
  for (const Node* loop = loop_around(node); loop != nullptr; loop = loop_around(loop)) found = loop;
  return found;
}

class Epochs {
 public:
  explicit Epochs(TorchWeaving& weaving) : w_(weaving) {}

  void write() {
    for (const TorchLoop& loop : w_.program.loops) {
      if (!loop.trains) continue;
      bool shuffled = false;
      for (const size_t loader : loop.loaders)
        shuffled = shuffled || (w_.program.loaders[loader].trains && is_shuffled(loader));
      if (shuffled && !w_.dialect.choices().divide_epochs) write_order(loop);
    }
    write_seeds();
  }

 private:
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

  void write_order(const TorchLoop& loop) {
    const std::string loader = w_.text(*loop.loader);
    const bool mixed = std::any_of(loop.loaders.begin(), loop.loaders.end(),
                                   [&](size_t one) { return !w_.program.loaders[one].trains; });
    if (loop.loader->is(Kind::call))
      w_.refuse(loop.loader, "keep the DataLoader in a variable, created once before the epochs");
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
        const std::string outer = handed_up(nodes, step, loop.loader);
        if (outer.empty()) break;
        insert(statement_of(nodes[step]), lines_for(outer, epoch, nodes[step]));
        return;
      }
    }
    if (any_loop) {
      w_.refuse(
          loop.loop,
          "the epoch cannot be determined here, and each epoch needs its own order of the samples; count the epochs with `for epoch in range(…)` and pass `epoch` to this function");
    }
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

  /// All processes start from the same random state, so splits and weights agree; during training, each has
  /// its own.
  void write_seeds() {
    std::vector<const Node*> torch_seeds;
    std::vector<const Node*> numpy_seeds;
    std::vector<const Node*> python_seeds;
    std::vector<const Node*> drawn_torch;
    std::vector<const Node*> drawn_numpy;
    std::vector<const Node*> drawn_python;
    for (const Node* call : w_.names.calls()) {
      const std::string& callee = w_.names.callee(call);
      if (callee == "torch.manual_seed" || callee == "torch.random.manual_seed") torch_seeds.push_back(call);
      if (callee == "numpy.random.seed") numpy_seeds.push_back(call);
      if (callee == "random.seed") python_seeds.push_back(call);
      const bool of_torch = callee == "torch.utils.data.random_split" || callee.starts_with("torch.rand") ||
                            callee.starts_with("torch.normal");
      const bool of_numpy = (callee.starts_with("numpy.random.") && callee != "numpy.random.seed" &&
                             callee != "numpy.random.RandomState" && callee != "numpy.random.default_rng") ||
                            callee == "sklearn.model_selection.train_test_split";
      const bool of_python =
          callee.starts_with("random.") && callee != "random.seed" && callee != "random.Random";
      if ((!of_torch && !of_numpy && !of_python) || in_training(call)) continue;
      const bool own_state =
          w_.names.keyword(call, "generator") != nullptr || w_.names.keyword(call, "random_state") != nullptr;
      if (own_state) continue;
      (of_torch ? drawn_torch : of_numpy ? drawn_numpy : drawn_python).push_back(call);
    }
    const bool torch_seed = !torch_seeds.empty();
    const bool numpy_seed = !numpy_seeds.empty();
    const bool python_seed = !python_seeds.empty();
    std::vector<std::string> start;
    const auto agree = [&](const std::vector<const Node*>& draws, const std::vector<const Node*>& seeds,
                           const std::string& module, const std::string& function) {
      if (w_.dialect.are_seeded(draws, seeds)) return;
      start.push_back(w_.dialect.module_name(module, w_.dialect.script()) + function);
      w_.edits.explain(
          draws.back()->line, start.back(),
          "random draws before training, such as a split of the data, must agree in all processes");
    };
    agree(drawn_torch, torch_seeds, "torch", ".manual_seed(0)");
    agree(drawn_numpy, numpy_seeds, "numpy", ".random.seed(0)");
    agree(drawn_python, python_seeds, "random", ".seed(0)");
    w_.dialect.at_start(start);
    if (!torch_seed && drawn_torch.empty()) return;
    for (const TorchLoop& loop : w_.program.loops) {
      if (!loop.trains) continue;
      const auto way = way_out(w_.names, loop.loop);
      const Node* outer = loop.loop;
      for (const Node* node : way) {
        const Node* around = outermost_loop(node);
        if (around != nullptr) outer = around;
      }
      if (!differ_before_.empty() &&
          std::find(differ_before_.begin(), differ_before_.end(), outer) != differ_before_.end())
        continue;
      differ_before_.push_back(outer);
      const std::string torch = w_.dialect.module_name("torch", outer);
      std::vector<std::string> text = {torch + ".manual_seed(" + torch + ".initial_seed() + " +
                                       w_.dialect.rank(outer) + ")"};
      if (numpy_seed)
        text.push_back(w_.dialect.module_name("numpy", outer) + ".random.seed(" + torch +
                       ".initial_seed() % 2**32)");
      if (python_seed)
        text.push_back(w_.dialect.module_name("random", outer) + ".seed(" + torch + ".initial_seed())");
      w_.edits.before(*outer, text);
      w_.edits.explain(
          outer->line, text[0],
          w_.dialect.choices().divide_epochs
              ? "the order of the samples, dropout and augmentation must differ between the processes"
              : "dropout, noise and augmentation must differ between the processes");
    }
  }

  bool in_training(const Node* node) const {
    for (const TorchLoop& loop : w_.program.loops) {
      if (is_inside(node, loop.loop)) return true;
    }
    const Node* owner = class_of(node);
    return owner != nullptr && w_.names.derives(owner, {"torch.nn.Module"});
  }

  TorchWeaving& w_;
  std::vector<const Node*> differ_before_;
};

}  // namespace

void write_epochs(TorchWeaving& weaving) { Epochs(weaving).write(); }

}  // namespace telar::weave
