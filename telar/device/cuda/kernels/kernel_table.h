#pragma once

#include <string_view>

#include "telar/device/cuda/lowering.h"

namespace telar::cuda {

using LowerFunction = void (*)(Lowering&, const Node&);

/// How a GPU computes an operation; null when it cannot yet.
LowerFunction find_kernel(std::string_view operation);

// One file each (conv2d.cpp, …). Each throws Error (run) for a form of its operation that a GPU cannot compute yet.
void lower_conv2d(Lowering& lowering, const Node& node);
void lower_convert(Lowering& lowering, const Node& node);
void lower_matmul(Lowering& lowering, const Node& node);
void lower_reduce_sum(Lowering& lowering, const Node& node);

}  // namespace telar::cuda
