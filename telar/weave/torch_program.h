#pragma once

#include <functional>
#include <string>
#include <vector>

#include "telar/weave/edits.h"
#include "telar/weave/names.h"

namespace telar::weave {

/// A module whose parameters an optimizer holds.
struct TorchModel {
  int place = -1;                    ///< the variable or attribute that the optimizer takes parameters of
  std::string text;                  ///< as written there: `model`, `self.net`
  std::vector<const Node*> origins;  ///< the calls that make it
  const Node* optimizer = nullptr;   ///< the call of the first optimizer that holds it
};

struct TorchOptimizer {
  const Node* call = nullptr;
  std::string name;            ///< `SGD`; empty when it is chosen while the program runs
  std::vector<size_t> models;  ///< indices into TorchProgram::models
};

struct TorchLoader {
  const Node* call = nullptr;
  bool trains = false;  ///< a training loop takes its batches from it
};

/// `for … in loader`, also through enumerate, tqdm and the like.
struct TorchLoop {
  const Node* loop = nullptr;
  const Node* loader = nullptr;  ///< the expression of the loader inside the iterable
  std::vector<size_t> loaders;   ///< those that it may be
  const Node* index = nullptr;   ///< the counting variable of enumerate
  bool trains = false;           ///< a backward pass happens in it
};

/// A PyTorch training script as weave understands it.
struct TorchProgram {
  std::vector<TorchModel> models;
  std::vector<TorchOptimizer> optimizers;
  std::vector<TorchLoader> loaders;
  std::vector<TorchLoop> loops;
  std::vector<const Node*> schedulers;
};

/// Reads it. Throws Refusal where the training is of a kind that is not understood.
TorchProgram read_torch(const Names& names);

/// Whether a file trains with PyTorch at all: it has an optimizer of torch.optim, or a backward pass beside an import of torch.
bool trains_with_torch(const Names& names);

/// Whether a node, or a function of this file that it calls, has a call for which `wanted` holds.
bool reaches(const Names& names, const Node* node, const std::function<bool(const Node*)>& wanted);

/// `x.backward(…)`, or scaler.scale(x).backward().
bool is_backward(const Node* call);

}  // namespace telar::weave
