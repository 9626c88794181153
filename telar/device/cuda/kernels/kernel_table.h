#pragma once

#include <string_view>

#include "telar/device/cuda/lowering.h"

namespace telar::cuda {

using LowerFunction = void (*)(Lowering&, const Node&);

/// The function that lowers an operation; null when GPUs do not support it yet.
LowerFunction find_kernel(std::string_view operation);

// One file for each family (conv2d.cpp, …). Each function throws Error (run) for a form of its operation that
// a GPU cannot compute.
void lower_accumulate(Lowering& lowering, const Node& node);
void lower_activation(Lowering& lowering, const Node& node);
void lower_activation_backward(Lowering& lowering, const Node& node);
void lower_add(Lowering& lowering, const Node& node);
void lower_all_gather(Lowering& lowering, const Node& node);
void lower_average_pool(Lowering& lowering, const Node& node);
void lower_average_pool_backward(Lowering& lowering, const Node& node);
void lower_batch_norm(Lowering& lowering, const Node& node);
void lower_batch_norm_apply(Lowering& lowering, const Node& node);
void lower_batch_norm_backward(Lowering& lowering, const Node& node);
void lower_batch_norm_backward_apply(Lowering& lowering, const Node& node);
void lower_batch_norm_backward_sums(Lowering& lowering, const Node& node);
void lower_batch_norm_inference(Lowering& lowering, const Node& node);
void lower_batch_norm_statistics(Lowering& lowering, const Node& node);
void lower_combine_statistics(Lowering& lowering, const Node& node);
void lower_concat(Lowering& lowering, const Node& node);
void lower_constant(Lowering& lowering, const Node& node);
void lower_conv2d(Lowering& lowering, const Node& node);
void lower_conv2d_backward_data(Lowering& lowering, const Node& node);
void lower_conv2d_backward_weights(Lowering& lowering, const Node& node);
void lower_convert(Lowering& lowering, const Node& node);
void lower_cross_entropy(Lowering& lowering, const Node& node);
void lower_cross_entropy_backward(Lowering& lowering, const Node& node);
void lower_dropout(Lowering& lowering, const Node& node);
void lower_embedding(Lowering& lowering, const Node& node);
void lower_embedding_backward(Lowering& lowering, const Node& node);
void lower_gru(Lowering& lowering, const Node& node);
void lower_gru_backward(Lowering& lowering, const Node& node);
void lower_layer_norm(Lowering& lowering, const Node& node);
void lower_layer_norm_backward(Lowering& lowering, const Node& node);
void lower_linear(Lowering& lowering, const Node& node);
void lower_linear_backward_data(Lowering& lowering, const Node& node);
void lower_linear_backward_weights(Lowering& lowering, const Node& node);
void lower_lstm(Lowering& lowering, const Node& node);
void lower_lstm_backward(Lowering& lowering, const Node& node);
void lower_matmul(Lowering& lowering, const Node& node);
void lower_max_pool(Lowering& lowering, const Node& node);
void lower_max_pool_backward(Lowering& lowering, const Node& node);
void lower_mean_squared_error(Lowering& lowering, const Node& node);
void lower_mean_squared_error_backward(Lowering& lowering, const Node& node);
void lower_mul(Lowering& lowering, const Node& node);
void lower_reduce_bucket(Lowering& lowering, const Node& node);
void lower_reduce_max(Lowering& lowering, const Node& node);
void lower_reduce_max_backward(Lowering& lowering, const Node& node);
void lower_reduce_mean(Lowering& lowering, const Node& node);
void lower_reduce_mean_backward(Lowering& lowering, const Node& node);
void lower_reduce_sum(Lowering& lowering, const Node& node);
void lower_reduce_sum_backward(Lowering& lowering, const Node& node);
void lower_reshape(Lowering& lowering, const Node& node);
void lower_scale(Lowering& lowering, const Node& node);
void lower_softmax(Lowering& lowering, const Node& node);
void lower_softmax_backward(Lowering& lowering, const Node& node);
void lower_split(Lowering& lowering, const Node& node);
void lower_split_backward(Lowering& lowering, const Node& node);
void lower_sum_to(Lowering& lowering, const Node& node);
void lower_top_k_correct(Lowering& lowering, const Node& node);
void lower_transpose(Lowering& lowering, const Node& node);

}  // namespace telar::cuda
