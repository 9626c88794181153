#include "telar/device/cpu/kernels/kernel_table.h"

#include <algorithm>
#include <array>
#include <utility>

namespace telar::cpu {

namespace {

constexpr auto kKernels = std::to_array<std::pair<std::string_view, LowerFunction>>({
    {"accumulate", lower_accumulate},
    {"add", lower_add},
    {"average_pool", lower_average_pool},
    {"average_pool_backward", lower_average_pool_backward},
    {"batch_norm", lower_batch_norm},
    {"batch_norm_backward", lower_batch_norm_backward},
    {"batch_norm_inference", lower_batch_norm_inference},
    {"constant", lower_constant},
    {"conv2d", lower_conv2d},
    {"conv2d_backward_data", lower_conv2d_backward_data},
    {"conv2d_backward_weights", lower_conv2d_backward_weights},
    {"convert", lower_convert},
    {"cross_entropy", lower_cross_entropy},
    {"cross_entropy_backward", lower_cross_entropy_backward},
    {"gelu", lower_activation},
    {"gelu_backward", lower_activation_backward},
    {"linear", lower_linear},
    {"linear_backward_data", lower_linear_backward_data},
    {"linear_backward_weights", lower_linear_backward_weights},
    {"max_pool", lower_max_pool},
    {"max_pool_backward", lower_max_pool_backward},
    {"mean_squared_error", lower_mean_squared_error},
    {"mean_squared_error_backward", lower_mean_squared_error_backward},
    {"mul", lower_mul},
    {"relu", lower_activation},
    {"relu_backward", lower_activation_backward},
    {"reshape", lower_reshape},
    {"reshape_like", lower_reshape},
    {"scale", lower_scale},
    {"sigmoid", lower_activation},
    {"sigmoid_backward", lower_activation_backward},
    {"sum_to", lower_sum_to},
    {"tanh", lower_activation},
    {"tanh_backward", lower_activation_backward},
    {"top_k_correct", lower_top_k_correct},
});

}  // namespace

LowerFunction find_kernel(std::string_view operation) {
  const auto* found =
      std::find_if(kKernels.begin(), kKernels.end(), [&](const auto& kernel) { return kernel.first == operation; });
  return found == kKernels.end() ? nullptr : found->second;
}

}  // namespace telar::cpu
