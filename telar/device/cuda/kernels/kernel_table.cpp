#include "telar/device/cuda/kernels/kernel_table.h"

#include <algorithm>
#include <array>
#include <utility>

namespace telar::cuda {

namespace {

constexpr auto kKernels = std::to_array<std::pair<std::string_view, LowerFunction>>({
    {"conv2d", lower_conv2d},
    {"convert", lower_convert},
    {"matmul", lower_matmul},
    {"reduce_sum", lower_reduce_sum},
});

}  // namespace

LowerFunction find_kernel(std::string_view operation) {
  const auto* found = std::find_if(kKernels.begin(), kKernels.end(),
                                   [&](const auto& kernel) { return kernel.first == operation; });
  return found == kKernels.end() ? nullptr : found->second;
}

}  // namespace telar::cuda
