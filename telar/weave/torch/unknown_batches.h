#pragma once

#include <string>

#include "telar/weave/torch/program.h"

namespace telar::weave {

/// Why no process can take its share of the batch of a backward pass that is in no loop over a DataLoader,
/// and what the author can change.
std::string why_not_divided(const Names& names, const TorchProgram& program, const Node* backward,
                            const std::string& reason);

/// Why an optimizer's parameters belong to no module that could be wrapped, and what the author can change.
std::string why_no_module(const Names& names, const Node* parameters);

}  // namespace telar::weave
