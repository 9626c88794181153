#include "telar/device/cuda/kernels/kernel_table.h"

#include <algorithm>
#include <array>
#include <utility>

namespace telar::cuda {

namespace {

constexpr auto kKernels = std::to_array<std::pair<std::string_view, LowerFunction>>({
    {"accumulate", lower_accumulate},
    {"add", lower_add},
    {"all_gather", lower_all_gather},
    {"average_pool", lower_average_pool},
    {"average_pool_backward", lower_average_pool_backward},
    {"batch_norm", lower_batch_norm},
    {"batch_norm_apply", lower_batch_norm_apply},
    {"batch_norm_backward", lower_batch_norm_backward},
    {"batch_norm_backward_apply", lower_batch_norm_backward_apply},
    {"batch_norm_backward_sums", lower_batch_norm_backward_sums},
    {"batch_norm_inference", lower_batch_norm_inference},
    {"batch_norm_statistics", lower_batch_norm_statistics},
    {"combine_statistics", lower_combine_statistics},
    {"concat", lower_concat},
    {"concat_backward", lower_split},
    {"constant", lower_constant},
    {"conv2d", lower_conv2d},
    {"conv2d_backward_data", lower_conv2d_backward_data},
    {"conv2d_backward_weights", lower_conv2d_backward_weights},
    {"convert", lower_convert},
    {"cross_entropy", lower_cross_entropy},
    {"cross_entropy_backward", lower_cross_entropy_backward},
    {"dropout", lower_dropout},
    {"embedding", lower_embedding},
    {"embedding_backward", lower_embedding_backward},
    {"gelu", lower_activation},
    {"gelu_backward", lower_activation_backward},
    {"gru", lower_gru},
    {"gru_backward", lower_gru_backward},
    {"layer_norm", lower_layer_norm},
    {"layer_norm_backward", lower_layer_norm_backward},
    {"linear", lower_linear},
    {"linear_backward_data", lower_linear_backward_data},
    {"linear_backward_weights", lower_linear_backward_weights},
    {"lstm", lower_lstm},
    {"lstm_backward", lower_lstm_backward},
    {"matmul", lower_matmul},
    {"max_pool", lower_max_pool},
    {"max_pool_backward", lower_max_pool_backward},
    {"mean_squared_error", lower_mean_squared_error},
    {"mean_squared_error_backward", lower_mean_squared_error_backward},
    {"mul", lower_mul},
    {"reduce_bucket", lower_reduce_bucket},
    {"reduce_max", lower_reduce_max},
    {"reduce_max_backward", lower_reduce_max_backward},
    {"reduce_mean", lower_reduce_mean},
    {"reduce_mean_backward", lower_reduce_mean_backward},
    {"reduce_sum", lower_reduce_sum},
    {"reduce_sum_backward", lower_reduce_sum_backward},
    {"relu", lower_activation},
    {"relu_backward", lower_activation_backward},
    {"reshape", lower_reshape},
    {"reshape_like", lower_reshape},
    {"scale", lower_scale},
    {"sigmoid", lower_activation},
    {"sigmoid_backward", lower_activation_backward},
    {"softmax", lower_softmax},
    {"softmax_backward", lower_softmax_backward},
    {"split", lower_split},
    {"split_backward", lower_split_backward},
    {"sum_to", lower_sum_to},
    {"tanh", lower_activation},
    {"tanh_backward", lower_activation_backward},
    {"top_k_correct", lower_top_k_correct},
    {"transpose", lower_transpose},
});

}  // namespace

LowerFunction find_kernel(std::string_view operation) {
  const auto* found = std::find_if(kKernels.begin(), kKernels.end(),
                                   [&](const auto& kernel) { return kernel.first == operation; });
  return found == kKernels.end() ? nullptr : found->second;
}

}  // namespace telar::cuda
