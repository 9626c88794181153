#pragma once

#include <string>
#include <vector>

#include "telar/weave/keras/program.h"
#include "telar/weave/python/names.h"
#include "telar/weave/torch/program.h"

namespace telar::weave {

/// A training program, independent of its framework and of the target. Each part is the node that creates it.
struct Program {
  struct Model {
    std::string name;               ///< `model`, `self.net`
    std::vector<const Node*> made;  ///< the calls that create it
  };
  struct Optimizer {
    const Node* made = nullptr;       ///< the call, or its name as a string
    std::vector<std::string> models;  ///< names
  };
  struct Data {
    const Node* made = nullptr;
    bool trains = false;
  };
  struct Loop {
    const Node* at = nullptr;    ///< the loop over batches, or the call that contains it: fit()
    const Node* over = nullptr;  ///< the data; null if unknown
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

/// Whether `callee` creates a layer, in either framework.
bool makes_layer(const std::string& callee);

}  // namespace telar::weave
