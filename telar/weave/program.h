#pragma once

#include <string>
#include <vector>

#include "telar/weave/keras_program.h"
#include "telar/weave/names.h"
#include "telar/weave/torch_program.h"

namespace telar::weave {

/// A training program whatever framework it is written for and whatever it is written to. Each part is the node of the
/// script that makes it.
struct Program {
  struct Model {
    std::string name;               ///< `model`, `self.net`
    std::vector<const Node*> made;  ///< the calls that make it
  };
  struct Optimizer {
    const Node* made = nullptr;       ///< the call, or the string that names it
    std::vector<std::string> models;  ///< names
  };
  struct Data {
    const Node* made = nullptr;
    bool trains = false;
  };
  struct Loop {
    const Node* at = nullptr;    ///< the loop over batches, or the call that has it inside: fit()
    const Node* over = nullptr;  ///< the data; null when it cannot be named
    bool trains = false;
  };
  std::string framework;  ///< pytorch or keras
  std::vector<Model> models;
  std::vector<const Node*> losses;
  std::vector<Optimizer> optimizers;
  std::vector<const Node*> schedules;
  std::vector<Data> data;
  std::vector<Loop> loops;
  std::vector<const Node*> callbacks;
  std::vector<const Node*> outputs;
};

Program program_of(const Names& names, const TorchProgram& torch);
Program program_of(const Names& names, const KerasProgram& keras);

/// Whether a call makes a layer, in either framework.
bool makes_layer(const std::string& callee);

}  // namespace telar::weave
