#pragma once

#include "telar/graph/graph.h"

namespace telar {

/// Batch normalisation over N, H, W (Ioffe and Szegedy, 2015).
/// x: [N, C, H, W] or [N, C], f32 or bf16; gamma, beta: [C] f32.
struct BatchNormResult {
  ValueId y = kNoValue;         ///< gamma · (x − mean) / √(variance + epsilon) + beta, of x's type
  ValueId mean = kNoValue;      ///< [C] f32, of this batch
  ValueId variance = kNoValue;  ///< [C] f32, of this batch, for running averages: Σ (x − mean)² / (n − 1)
};

/// Training mode: statistics of this batch. Attribute "activation" = "relu" is set by fusion. `biased`: the
/// variance is that of Keras's moving averages, Σ (x − mean)² / n; the node has an attribute of this name.
BatchNormResult batch_norm(GraphBuilder& builder, ValueId x, ValueId gamma, ValueId beta, double epsilon,
                           bool biased = false);

/// Evaluation mode: with the given statistics ([C] f32; variance as in running averages).
ValueId batch_norm_inference(GraphBuilder& builder, ValueId x, ValueId gamma, ValueId beta, ValueId mean,
                             ValueId variance, double epsilon);

/// The first layer of a graph whose batch normalisation takes its statistics of one value for each sample and
/// channel; empty: there is none.
std::string layer_with_vector_norm(const Graph& graph);

/// The epsilon of a node of any batch normalisation operation.
inline float epsilon_of(const Node& node) { return static_cast<float>(node.attributes.real("epsilon")); }

/// Whether the variance of a node of batch_norm or combine_statistics is biased.
inline bool has_biased_variance(const Node& node) { return node.attributes.flag_or("biased", false); }

}  // namespace telar
