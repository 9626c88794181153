#include "telar/weave/torch/program.h"

#include <algorithm>
#include <functional>
#include <set>

#include "telar/weave/torch/unknown_batches.h"

namespace telar::weave {

namespace {

class TorchReader {
 public:
  TorchReader(const Names& names, bool divides) : names_(names), divides_(divides) {}

  TorchProgram read() {
    for (const Node* call : names_.calls()) read_call(call);
    program_.passers = read_passers(names_, program_.loaders);
    read_models(names_, program_);
    for (const Node& node : names_.tree().nodes()) {
      if (node.is(Kind::for_)) read_loop(&node);
    }
    std::sort(program_.loops.begin(), program_.loops.end(),
              [](const TorchLoop& a, const TorchLoop& b) { return a.loop->begin < b.loop->begin; });
    for (const TorchLoop& loop : program_.loops) {
      if (!loop.trains) continue;
      for (const size_t loader : loop.loader.loaders) program_.loaders[loader].trains = true;
      for (const LoaderUse& other : loop.others) {
        for (const size_t loader : other.loaders) program_.loaders[loader].trains = true;
      }
    }
    for (const Node* call : names_.calls())
      if (is_backward(call) && !is_in_unused(call)) program_.backwards.push_back(call);
    if (divides_) check_every_backward();
    return std::move(program_);
  }

 private:
  [[noreturn]] void refuse(const Node* node, const std::string& decision) const {
    throw Refusal{node->line, std::string(names_.tree().text(*node)), decision};
  }

  void read_call(const Node* call) {
    const std::string callee = names_.callee(call);
    const std::string optimizer = optimizer_name(names_, call);
    if (!optimizer.empty()) program_.optimizers.push_back({call, optimizer == "?" ? "" : optimizer, {}});
    if (callee.starts_with("torch.optim.lr_scheduler.")) program_.schedulers.push_back(call);
    const Node* own = names_.definition(call->child("func"));
    if (callee == "torch.utils.data.DataLoader") {
      program_.loaders.push_back({call, false});
    } else if (divides_ && own != nullptr && own->is(Kind::class_def) &&
               names_.derives(own, {"torch.utils.data.DataLoader"})) {
      refuse(
          call,
          "this class is derived from DataLoader; use DataLoader itself, so that its samples can be divided");
    }
  }

  /// The loaders that an expression may be, or whose batches it passes on.
  LoaderUse loaders_of(const Node* expression) const {
    LoaderUse use;
    std::set<size_t> found;
    for (const Node* origin : names_.origins(expression)) {
      for (size_t i = 0; i < program_.loaders.size(); ++i) {
        if (program_.loaders[i].call != origin) continue;
        found.insert(i);
        use.maybe_the_loader = true;
      }
      for (const TorchPasser& passer : program_.passers) {
        if (passer.call != origin) continue;
        if (!use.attribute.empty() && use.attribute != passer.attribute)
          refuse(
              expression,
              "it is an object of one class or of another, which keep their loaders differently; use a loop for each");
        found.insert(passer.loader);
        use.attribute = passer.attribute;
      }
    }
    use.loaders.assign(found.begin(), found.end());
    return use;
  }

  /// Finds the loaders that an iterable takes batches from, and the expression for them.
  void loader_in(const Node* iterable, TorchLoop& loop) const {
    const LoaderUse use = loaders_of(iterable);
    const bool own_call = iterable->is(Kind::call) && program_.loader_of(iterable) != nullptr;
    if (!use.loaders.empty() && (own_call || !iterable->is(Kind::call))) {
      loop.loader = use;
      loop.loader.expression = iterable;
      // For tqdm(loader) in a variable, the loader is its argument.
      for (const Value& value : names_.values(names_.place(iterable))) {
        if (value.node->is(Kind::call) && value.part < 0 && !own_call &&
            program_.loader_of(value.node) == nullptr && names_.called_function(value.node) == nullptr) {
          TorchLoop inner;
          loader_in(value.node, inner);
          if (inner.loader.expression == nullptr) continue;
          loop.loader = inner.loader;
          loop.loader.loaders = use.loaders;
        }
      }
      return;
    }
    if (!iterable->is(Kind::call)) return;
    for (const Node* given : iterable->list("args")) {
      TorchLoop other;
      loader_in(given, loop.loader.expression == nullptr ? loop : other);
      if (other.loader.expression != nullptr) loop.others.push_back(other.loader);
    }
    const std::string callee = names_.qualified(iterable->child("func"));
    if (divides_ && loop.loader.expression != nullptr && callee == "itertools.cycle") {
      refuse(iterable, "cycle() repeats the first epoch's batches; loop over the loader once in each epoch");
    }
  }

  /// Whether a loop is that of a passer's `__iter__`.
  bool is_in_passer(const Node* loop) const {
    const Node* method = function_of(loop);
    if (method == nullptr || method->text != "__iter__") return false;
    return std::any_of(program_.passers.begin(), program_.passers.end(), [&](const TorchPasser& passer) {
      return names_.method(names_.definition(passer.call->child("func")), "__iter__") == method;
    });
  }

  void read_loop(const Node* node) {
    TorchLoop loop;
    loop.loop = node;
    if (is_in_passer(node)) return;  // the loop over the object counts
    loader_in(node->child("iter"), loop);
    if (loop.loader.expression == nullptr) return;
    const Node* iterable = node->child("iter");
    const Node* target = node->child("target");
    if (iterable->is(Kind::call) && names_.qualified(iterable->child("func")) == "tqdm.tqdm" &&
        !iterable->list("args").empty()) {
      iterable = iterable->list("args")[0];
    }
    if (iterable->is(Kind::call) && names_.qualified(iterable->child("func")) == "enumerate" &&
        target->is(Kind::tuple)) {
      loop.index = target->list("elts")[0];
    }
    for (const Node* statement : node->list("body"))
      loop.trains = loop.trains || reaches(names_, statement, is_backward);
    program_.loops.push_back(loop);
  }

  /// Whether nothing in the program runs a function: no name, attribute or import mentions it.
  bool is_unused(const Node* function) const {
    const Node* owner = class_of(function);
    const bool special = function->text.starts_with("__") || !function->list("decorator_list").empty();
    if (special || (owner != nullptr && has_foreign_base(owner))) return false;
    const auto& nodes = names_.tree().nodes();
    return std::none_of(nodes.begin(), nodes.end(), [&](const Node& node) {
      return &node != function && node.text == function->text && !node.is_function();
    });
  }

  /// Whether a class derives from a class outside the program, other than torch.nn.Module: its methods may be
  /// called there.
  bool has_foreign_base(const Node* owner) const {
    const auto& bases = owner->list("bases");
    return std::any_of(bases.begin(), bases.end(), [&](const Node* base) {
      const std::string name = names_.qualified(base);
      const Node* own = names_.definition(base);
      if (own != nullptr && own != owner && own->is(Kind::class_def)) return has_foreign_base(own);
      return name != "object" && name != "torch.nn.Module";
    });
  }

  bool is_in_unused(const Node* node) const {
    for (const Node* function = function_of(node); function != nullptr; function = function_of(function)) {
      if (is_unused(function)) return true;
    }
    return false;
  }

  /// Whether a call is `next(…)` within a loop, of a loader for which `of(loader)` is true.
  bool draws_in_loop(const Node* call, const std::function<bool(const TorchLoader&)>& of) const {
    if (call->list("args").empty() || names_.qualified(call->child("func")) != "next") return false;
    const auto origins = names_.origins(call->list("args")[0]);
    const bool draws = std::any_of(origins.begin(), origins.end(), [&](const Node* origin) {
      const TorchLoader* loader = program_.loader_of(origin);
      return loader != nullptr && of(*loader);
    });
    for (const Node* around = statement_of(call)->parent; draws && around != nullptr; around = around->parent)
      if (around->is(Kind::while_) || around->is(Kind::for_)) return true;
    return false;
  }

  [[noreturn]] void refuse_drawing(const Node* call) const {
    refuse(call, "batches are drawn one at a time with next(); loop over the loader once in each epoch");
  }

  /// The batch of a backward pass outside all loops over a DataLoader has an unknown source.
  void check_every_backward() {
    if (program_.optimizers.empty()) return;
    std::vector<const Node*> alone;
    for (const Node* backward : program_.backwards) {
      if (in_training_loop(backward, 6)) continue;
      for (const Node* call : names_.calls()) {
        const bool same_function = function_of(call) == function_of(backward);
        if (same_function && draws_in_loop(call, [](const TorchLoader&) { return true; }))
          refuse_drawing(call);
      }
      if (trains_by_loops()) refuse(backward, why_not_divided(names_, program_, backward, ""));
      alone.push_back(backward);
    }
    const Node* refused = nullptr;
    std::string why;
    program_.shares = read_shares(names_, program_, alone, refused, why);
    if (refused != nullptr) refuse(refused, why_not_divided(names_, program_, refused, why));
    for (const Node* call : names_.calls())
      if (draws_in_loop(call, [](const TorchLoader& loader) { return loader.trains; })) refuse_drawing(call);
  }

  bool trains_by_loops() const {
    return std::any_of(program_.loops.begin(), program_.loops.end(),
                       [](const TorchLoop& loop) { return loop.trains; });
  }

  bool in_training_loop(const Node* node, int depth) const {
    for (const TorchLoop& loop : program_.loops) {
      if (is_inside(node, loop.loop)) return true;
    }
    if (depth == 0) return false;
    const Node* function = function_of(node);
    if (function == nullptr) return false;
    bool called = false;
    for (const Node* caller : names_.calls_of(function)) {
      if (is_switched_off(names_, node, caller)) continue;
      if (!in_training_loop(caller, depth - 1)) return false;
      called = true;
    }
    if (called) return true;
    // A closure that is passed to optimizer.step(closure).
    for (const Node* mention :
         names_.mentions(names_.place(function->parent == nullptr ? nullptr : mention_of(function)))) {
      if (mention->parent->is(Kind::call) && in_training_loop(mention, depth - 1)) return true;
    }
    return false;
  }

  /// A node that names a function, to look up its variable.
  const Node* mention_of(const Node* function) const {
    for (const Node& node : names_.tree().nodes()) {
      if (node.is(Kind::name) && node.text == function->text && names_.definition(&node) == function)
        return &node;
    }
    return nullptr;
  }

  const Names& names_;
  bool divides_;
  TorchProgram program_;
};

}  // namespace

bool is_backward(const Node* call) {
  const Node* function = call->child("func");
  return function->is(Kind::attribute) && function->text == "backward" && call->list("args").size() <= 1;
}

bool has_backward(const Names& names) {
  const bool torch = std::any_of(names.imports().begin(), names.imports().end(), [](const auto& one) {
    return one.first == "torch" || one.first.starts_with("torch.");
  });
  return torch && std::any_of(names.calls().begin(), names.calls().end(), is_backward);
}

bool trains_with_torch(const Names& names) {
  return has_backward(names) &&
         std::any_of(names.calls().begin(), names.calls().end(),
                     [&](const Node* call) { return !optimizer_name(names, call).empty(); });
}

TorchProgram read_torch(const Names& names, bool divides) { return TorchReader(names, divides).read(); }

}  // namespace telar::weave
