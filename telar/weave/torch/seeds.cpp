// Random numbers: all processes start alike, so that splits and weights agree; from the training on, each has
// its own, so that noise, dropout and augmentation differ.
#include <algorithm>
#include <array>
#include <set>

#include "telar/weave/torch/writer.h"
#include "telar/weave/write/own_generators.h"

namespace telar::weave {

namespace {

/// A generator of random numbers: its calls in a program.
struct Generator {
  std::string module;
  std::string seed;                      ///< what follows the module in the call that seeds it
  std::vector<const Node*> seeds;        ///< calls that seed it
  std::vector<const Node*> drawn_early;  ///< calls that draw from it before training
  bool drawn_in_functions = false;       ///< so perhaps during training, as for a sample
  bool is_seeded() const { return !seeds.empty(); }
};

class Seeds {
 public:
  explicit Seeds(TorchWeaving& weaving) : w_(weaving) {}

  void write() {
    for (const Node* call : w_.names.calls()) read(call);
    std::vector<std::string> start;
    for (const Generator& one : generators_) agree(one, start);
    w_.dialect.at_start(start);
    seed_own_generators(w_.names, w_.edits, [&](const Node* call) { return draws_in_training(call); });
    write_workers();
    for (const TorchLoop& loop : w_.program.loops) {
      if (loop.trains) part(loop);
    }
    for (const TorchShare& share : w_.program.shares) part({share.loop, {}, {}, nullptr, true});
  }

 private:
  Generator& torch() { return generators_[0]; }

  static int generator_of_seed(const std::string& callee) {
    if (callee == "torch.manual_seed" || callee == "torch.random.manual_seed") return 0;
    if (callee == "numpy.random.seed") return 1;
    return callee == "random.seed" ? 2 : -1;
  }

  static int generator_of_draw(const std::string& callee) {
    if (callee == "torch.utils.data.random_split" || callee.starts_with("torch.rand") ||
        callee.starts_with("torch.normal"))
      return 0;
    if (callee == "sklearn.model_selection.train_test_split" || callee.starts_with("sklearn.datasets.make_"))
      return 1;
    if (callee.starts_with("numpy.random."))
      return callee == "numpy.random.RandomState" || callee == "numpy.random.default_rng" ? -1 : 1;
    return callee.starts_with("random.") && callee != "random.Random" ? 2 : -1;
  }

  void read(const Node* call) {
    const std::string& callee = w_.names.callee(call);
    if (const int seeded = generator_of_seed(callee); seeded >= 0) {
      generators_[static_cast<size_t>(seeded)].seeds.push_back(call);
      return;
    }
    const int drawn = generator_of_draw(callee);
    const bool own_state =
        w_.names.keyword(call, "generator") != nullptr || w_.names.keyword(call, "random_state") != nullptr;
    if (drawn < 0 || own_state) return;
    Generator& one = generators_[static_cast<size_t>(drawn)];
    one.drawn_in_functions = one.drawn_in_functions || function_of(call) != nullptr || in_training(call);
    if (!in_training(call)) one.drawn_early.push_back(call);
  }

  bool in_training(const Node* node) const {
    for (const TorchLoop& loop : w_.program.loops) {
      if (is_inside(node, loop.loop)) return true;
    }
    for (const Node* loop : w_.program.training_loops()) {
      if (is_inside(node, loop)) return true;
    }
    const Node* owner = class_of(node);
    return owner != nullptr && w_.names.derives(owner, {"torch.nn.Module"});
  }

  /// Whether a call draws for each process by itself: in a step or for a sample, and not the choice of a
  /// batch that all processes share.
  bool draws_in_training(const Node* call) const {
    for (const TorchShare& share : w_.program.shares) {
      if (std::find(share.draws.begin(), share.draws.end(), call) != share.draws.end()) return false;
    }
    const auto is_it = [&](const Node* one) { return one == call; };
    const auto loops = w_.program.training_loops();
    return in_training(call) || is_in_worker(w_.names, call) ||
           std::any_of(loops.begin(), loops.end(),
                       [&](const Node* loop) { return reaches(w_.names, loop, is_it); });
  }

  void agree(const Generator& one, std::vector<std::string>& start) {
    if (w_.dialect.are_seeded(one.drawn_early, one.seeds)) return;
    start.push_back(w_.dialect.module_name(one.module, w_.dialect.script()) + one.seed + "(0)");
    w_.edits.explain(
        one.drawn_early.back()->line, start.back(),
        "random draws before training, such as a split of the data, must agree in all processes");
  }

  /// Whether all processes have the same state of a generator when training begins, and may draw from it.
  static bool is_to_part(const Generator& one) {
    return one.is_seeded() || (!one.drawn_early.empty() && (one.module == "torch" || one.drawn_in_functions));
  }

  /// The outermost loop around the training in which nothing seeds the generator again.
  const Node* loop_to_part_before(const TorchLoop& loop, const Generator& one) const {
    const auto seeds = [&](const Node* call) {
      return std::find(one.seeds.begin(), one.seeds.end(), call) != one.seeds.end();
    };
    const Node* found = nullptr;
    for (const Node* node : way_out(w_.names, loop.loop)) {
      const Node* around = node == loop.loop ? node : loop_around(node);
      for (; around != nullptr; around = loop_around(around)) {
        if (!reaches(w_.names, around, seeds)) {
          found = around;
          continue;
        }
        if (found != nullptr) return found;
        for (const Node* seed : one.seeds) {
          if (is_inside(seed, around))
            w_.refuse(
                seed,
                "this gives all processes the same random numbers in each step; seed once, before training");
        }
        w_.refuse(
            around,
            "a function that it calls gives all processes the same random numbers in each step; seed once, before training");
      }
      if (found != nullptr && seeds_before(function_of(node), seeds)) return found;
    }
    return found;
  }

  /// Whether a function on the way to the training seeds the generator, each time it is called.
  bool seeds_before(const Node* function, const std::function<bool(const Node*)>& seeds) const {
    return function != nullptr && reaches(w_.names, function, seeds);
  }

  void part(const TorchLoop& loop) {
    const Node* of_torch = is_to_part(torch()) ? loop_to_part_before(loop, torch()) : nullptr;
    for (const Generator& one : generators_) {
      if (!is_to_part(one)) continue;
      const Node* before = loop_to_part_before(loop, one);
      if (before == nullptr || !parted_.insert({before, one.module}).second) continue;
      const std::string text = parting(one, before, before == of_torch);
      // The processes take the first one's draws, which are then those of the script.
      const bool others_part = std::any_of(w_.program.shares.begin(), w_.program.shares.end(),
                                           [](const TorchShare& share) { return !share.draws.empty(); });
      w_.edits.before(*before,
                      others_part
                          ? std::vector<std::string>{"if " + w_.dialect.rank(before) + " > 0:", "    " + text}
                          : std::vector<std::string>{text});
      w_.edits.explain(
          before->line, text,
          w_.dialect.choices().divide_epochs
              ? "the order of the samples, dropout and augmentation must differ between the processes"
              : "dropout, noise and augmentation must differ between the processes");
    }
  }

  std::string parting(const Generator& one, const Node* at, bool with_torch) const {
    const std::string module = w_.dialect.module_name(one.module, at);
    const std::string rank = w_.dialect.rank(at);
    if (one.module == "torch") return module + ".manual_seed(" + module + ".initial_seed() + " + rank + ")";
    const bool numpy = one.module == "numpy";
    if (with_torch) {
      const std::string initial = w_.dialect.module_name("torch", at) + ".initial_seed()";
      return module + one.seed + "(" + initial + (numpy ? " % 2**32)" : ")");
    }
    return module + one.seed + "(" + module + (numpy ? ".random.randint(2**31)" : ".getrandbits(31)") +
           " + " + rank + ")";
  }

  /// Workers of a loader that are seeded by their number alone would change all processes' samples alike.
  void write_workers() {
    for (const TorchLoader& loader : w_.program.loaders) {
      const Node* given = w_.names.argument(loader.call, "worker_init_fn", 10);
      const Node* function = given == nullptr ? nullptr : w_.names.definition(given);
      if (function == nullptr || !function->is_function() || !workers_.insert(function).second) continue;
      for (const Generator& one : generators_) {
        for (const Node* seed : one.seeds) {
          if (is_inside(seed, function) && !depends_on_process(*function)) write_worker(seed);
        }
      }
    }
  }

  /// Whether a function asks torch or NumPy for its seed, which differs between the processes.
  bool depends_on_process(const Node& function) const {
    bool asks = false;
    walk(function, [&](const Node& node) {
      asks = asks || (node.is(Kind::call) && generator_of_seed(w_.names.callee(&node)) < 0);
      return !asks;
    });
    return asks;
  }

  void write_worker(const Node* seed) {
    if (seed->list("args").size() != 1)
      w_.refuse(seed, "give the seed as a positional argument, so that each process can have its own");
    w_.edits.insert(seed->list("args")[0]->end, " + 1000 * " + w_.dialect.rank(seed));
    w_.edits.explain(seed->line, w_.text(*seed),
                     "the workers of each process change samples in their own way");
  }

  TorchWeaving& w_;
  std::array<Generator, 3> generators_ = {Generator{"torch", ".manual_seed", {}, {}, false},
                                          Generator{"numpy", ".random.seed", {}, {}, false},
                                          Generator{"random", ".seed", {}, {}, false}};
  std::set<std::pair<const Node*, std::string>> parted_;
  std::set<const Node*> workers_;
};

}  // namespace

void write_seeds(TorchWeaving& weaving) { Seeds(weaving).write(); }

}  // namespace telar::weave
