#pragma once

#include <string>

#include "telar/weave/program.h"

namespace telar::weave {

/// The training program as JSON: its models with their layers, losses, optimizers, schedules, data, loops,
/// outputs.
std::string describe(const Names& names, const Program& program);

}  // namespace telar::weave
