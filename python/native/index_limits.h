#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "telar/nn/model.h"

namespace telar::python {

/// For each input of integers, and each element of a sample, how many different ones the model knows there: 0
/// … limit − 1. Kernels trust tokens and labels, so a batch from Python is checked for it.
using IndexLimits = std::map<std::string, std::vector<int64_t>>;

IndexLimits index_limits(const ModelGraphs& graphs);

}  // namespace telar::python
