#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "telar/graph/graph.h"

namespace telar {

/// Element-wise activations. x: any shape, f32 or bf16; y: the same type.
ValueId relu(GraphBuilder& builder, ValueId x);     ///< max(0, x)
ValueId gelu(GraphBuilder& builder, ValueId x);     ///< x · Φ(x), the exact form with erf
ValueId sigmoid(GraphBuilder& builder, ValueId x);  ///< 1 / (1 + e^−x)
ValueId tanh(GraphBuilder& builder, ValueId x);
ValueId silu(GraphBuilder& builder, ValueId x);       ///< x / (1 + e^−x), also called swish
ValueId gelu_tanh(GraphBuilder& builder, ValueId x);  ///< x · (1 + tanh(√(2/π) · (x + 0.044715 x³))) / 2
ValueId softplus(GraphBuilder& builder, ValueId x);   ///< log(1 + e^x)
ValueId hardswish(GraphBuilder& builder, ValueId x);   ///< x · min(max(x + 3, 0), 6) / 6
ValueId elu(GraphBuilder& builder, ValueId x);         ///< x if above 0, else e^x − 1
ValueId leaky_relu(GraphBuilder& builder, ValueId x);  ///< x if above 0, else 0.01 · x

/// The same by name: "relu" … Throws Error (run) for an unknown name.
ValueId activation(GraphBuilder& builder, std::string_view name, ValueId x);
/// The names of all activations. Each is a layer type of a job.
std::vector<std::string> activation_names();

}  // namespace telar
