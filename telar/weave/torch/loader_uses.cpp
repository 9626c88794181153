// A divided loader gives each process its share of the batches. A loop over it is understood, and so is its
// length; what else takes its batches would compute something of a share, as if it were of all samples.
#include <algorithm>
#include <unordered_set>

#include "telar/weave/torch/writer.h"

namespace telar::weave {

namespace {

class LoaderUses {
 public:
  explicit LoaderUses(const TorchWeaving& weaving) : w_(weaving) {}

  void check() const {
    for (const Node& node : w_.names.tree().nodes()) {
      if (node.is(Kind::comprehension) && divided(node.child("iter")))
        w_.refuse(
            node.child("iter"),
            "each process has its share of these batches, so it would compute this from a part of the samples; write it as a loop that adds up its results, or create this loader by a call of DataLoader that creates no loader for training");
    }
    for (const Node* call : w_.names.calls()) check_call(call);
  }

 private:
  bool divided(const Node* expression) const {
    const auto origins = w_.names.origins(expression);
    return std::any_of(origins.begin(), origins.end(), [&](const Node* origin) {
      const TorchLoader* loader = w_.program.loader_of(origin);
      return loader != nullptr && loader->trains;
    });
  }

  void check_call(const Node* call) const {
    static const std::unordered_set<std::string_view> takers = {"list", "tuple", "sorted", "set",   "sum",
                                                                "max",  "min",   "map",    "filter"};
    const std::string callee = w_.names.qualified(call->child("func"));
    const auto& given = call->list("args");
    if (!takers.contains(callee) || given.empty() || !divided(given.back())) return;
    for (const TorchLoop& loop : w_.program.loops) {
      if (is_inside(call, loop.loop->child("iter"))) return;
    }
    const bool counted =
        call->parent->is(Kind::call) && w_.names.qualified(call->parent->child("func")) == "len";
    w_.refuse(
        call,
        counted
            ? "it reads all batches again, only to count them, and each process has its share; write len() of the loader itself"
            : "it takes all batches of a loader, of which each process has its share; loop over the loader");
  }

  const TorchWeaving& w_;
};

}  // namespace

void check_loader_uses(const TorchWeaving& weaving) {
  if (!weaving.dialect.choices().divide_epochs) LoaderUses(weaving).check();
}

}  // namespace telar::weave
