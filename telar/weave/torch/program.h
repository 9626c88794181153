#pragma once

#include <string>
#include <vector>

#include "telar/weave/python/names.h"
#include "telar/weave/torch/reach.h"
#include "telar/weave/torch/shares.h"
#include "telar/weave/write/edits.h"

namespace telar::weave {

/// A module whose parameters an optimizer updates.
struct TorchModel {
  int place = -1;    ///< the variable or attribute whose parameters are passed to the optimizer
  std::string text;  ///< its source text there: `model`, `self.net`
  std::vector<const Node*> origins;  ///< the calls that create it
  /// The call that creates its first optimizer; if a method of the module does, the call of that method.
  const Node* optimizer = nullptr;
};

struct TorchOptimizer {
  const Node* call = nullptr;
  std::string name;            ///< `SGD`; empty if it is chosen at run time
  std::vector<size_t> models;  ///< indices into TorchProgram::models
};

struct TorchLoader {
  const Node* call = nullptr;
  bool trains = false;  ///< a training loop iterates over it
};

/// An object of a class of the program whose `__iter__` passes on each batch of one loader, which the object
/// keeps in an attribute: `for batch in self.loader: yield prepare(batch)`.
struct TorchPasser {
  const Node* call = nullptr;  ///< that creates the object
  size_t loader = 0;
  std::string attribute;
};

/// An expression that is a loader, or an object that passes on its batches.
struct LoaderUse {
  const Node* expression = nullptr;
  std::vector<size_t> loaders;    ///< indices of the loaders that it may be
  std::string attribute;          ///< of the passer, where it keeps its loader; empty: it is no passer
  bool maybe_the_loader = false;  ///< of a passer: at times the variable holds the loader itself

  /// The loader, for the source text of such an expression.
  std::string loader_in(const std::string& text) const;
};

/// `for … in loader`, also through enumerate, tqdm and similar functions.
struct TorchLoop {
  const Node* loop = nullptr;
  LoaderUse loader;               ///< within the iterable
  std::vector<LoaderUse> others;  ///< further loaders, in `zip(loader, other)`
  const Node* index = nullptr;    ///< the counting variable of enumerate
  bool trains = false;            ///< it contains a backward pass
};

/// A PyTorch training script as weave understands it.
struct TorchProgram {
  std::vector<TorchModel> models;
  std::vector<TorchOptimizer> optimizers;
  std::vector<TorchLoader> loaders;
  std::vector<TorchPasser> passers;
  std::vector<TorchLoop> loops;
  std::vector<TorchShare> shares;  ///< the training steps, if they have no loader
  std::vector<const Node*> schedulers;
  std::vector<const Node*> backwards;  ///< the backward passes that something runs

  /// The loader that a call creates, or whose batches the object that it creates passes on; null if none.
  const TorchLoader* loader_of(const Node* call) const;
  /// The loops around training steps, with a loader or without.
  std::vector<const Node*> training_loops() const;
};

/// Reads a PyTorch script. Throws Refusal if weave does not understand how it trains. `divides`: the
/// processes divide the samples, so it must be known where each batch comes from.
TorchProgram read_torch(const Names& names, bool divides = true);

/// Adds the models of a program's optimizers. Throws Refusal.
void read_models(const Names& names, TorchProgram& program);

/// The objects that pass on the batches of these loaders.
std::vector<TorchPasser> read_passers(const Names& names, const std::vector<TorchLoader>& loaders);

/// The class of the optimizer that a call creates: "SGD"; "?" if getattr selects it; empty if the call
/// creates none.
std::string optimizer_name(const Names& names, const Node* call);

/// Whether a program imports torch and has a backward pass.
bool has_backward(const Names& names);
/// Whether a program trains with PyTorch: it has a backward pass, and an optimizer of torch.optim.
bool trains_with_torch(const Names& names);

/// Whether a call is `x.backward(…)` or `scaler.scale(x).backward()`.
bool is_backward(const Node* call);

}  // namespace telar::weave
