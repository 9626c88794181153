#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "telar/graph/graph.h"

namespace telar {

/// How the initial values of a parameter are generated, from (job seed, parameter name) alone, or that they
/// are given.
struct Initializer {
  enum class Kind : uint8_t { constant, uniform, normal, given };
  Kind kind = Kind::constant;
  double a = 0;  ///< constant: the value; uniform: lower bound; normal: mean
  double b = 0;  ///< uniform: upper bound; normal: standard deviation
  /// given: fills in the values, in canonical order; throws Error (user) if they cannot be read.
  std::function<void(std::span<float> values)> give = nullptr;
};

/// A tensor of the model's long-lived state, by its logical name (torchvision's and PyTorch's names).
struct ParameterInfo {
  std::string name;
  Shape shape;  ///< canonical: OIHW for convolutions, [out, in] for linear layers
  /// false: a running statistic, updated by `running_average_update`, not by the optimizer
  bool trainable = true;
  Initializer initializer;
};

/// The metric that every step has, and that training lowers.
inline constexpr const char* kLoss = "loss";

/// One step of training, as graphs over named state. Sample counts, learning rate, step number and random
/// state are inputs, so the same graphs serve any part of a batch, any worker and any schedule.
///
/// Names:
///   inputs of `gradient` and `evaluation`: "x" (batched; f32 or i32), "label" (batched; i32 [N, …] or
///     f32 targets), "sample" (batched; i32 [N, 2], low and high word of
///     the 64-bit global sample ids), "random" (i32 [4]: seed low, seed high,
///     epoch, 0). Only those that are used are declared.
///   gradients: one for every parameter, trainable or not (running statistics: the sum over samples of the
///     batch's statistic), by the parameter's name.
///   metrics: sums over samples: kLoss always, and "accuracy", "top5" … as requested; several in one buffer
///     ("class_counts", then "class_counts.1" …) where a metric follows from more than one.
///   optimizer state: by slot ("momentum", "adam_m") and the parameter's name.
///   inputs of `update`: "learning_rate", "samples" (global count of the step), "step" (1 for the first), all
///     f32 [1].
struct TrainingStep {
  Graph gradient;    ///< forward and backward over some samples; adds sums, never means, to the buffers
  Graph update;      ///< divides by `samples`, clips if requested, applies the optimizer to every parameter
  Graph evaluation;  ///< forward in evaluation mode; adds to the metric buffers
  Graph prediction;  ///< forward in evaluation mode; output "prediction" [N, …]: logits or values
  std::vector<ParameterInfo> parameters;
  std::vector<std::string> metrics;  ///< their names, loss first
  size_t forward_nodes = 0;          ///< number of nodes of the forward part, which comes first in `gradient`
};

}  // namespace telar
