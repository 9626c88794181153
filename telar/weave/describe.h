#pragma once

#include <string>

#include "telar/weave/torch_program.h"

namespace telar::weave {

/// The training program as JSON: models with their layers, losses, optimizers, schedules, data, loops, outputs.
std::string describe(const Names& names, const TorchProgram& program);

}  // namespace telar::weave
