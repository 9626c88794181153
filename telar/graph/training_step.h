#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "telar/graph/graph.h"

namespace telar {

/// How a parameter gets its first values, from (job seed, parameter name) alone.
struct Initializer {
  enum class Kind : uint8_t { constant, uniform, normal };
  Kind kind = Kind::constant;
  double a = 0;  ///< constant: the value; uniform: lower bound; normal: mean
  double b = 0;  ///< uniform: upper bound; normal: standard deviation
};

/// A tensor of long-lived state of the model, by its logical name (torchvision's and PyTorch's names).
struct ParameterInfo {
  std::string name;
  Shape shape;  ///< canonical: OIHW for convolutions, [out, in] for linear layers
  bool trainable =
      true;  ///< false: a running statistic, moved by `running_average_update`, not by the optimizer
  Initializer initializer;
};

/// What a gradient's buffer is called: this, then the parameter's name.
inline constexpr std::string_view kGradientPrefix = "gradient/";

/// One step of training as graphs over named state. Sample counts, learning rate, step number and random state
/// are inputs, so the same graphs serve any part of a batch, any worker and any schedule.
///
/// Conventions of names:
///   inputs of `gradient` and `evaluation`: "x" (batched; f32 or i32), "label" (batched; i32 [N] or f32 targets),
///     "sample" (batched; i32 [N], global sample ids), "random" (i32 [4]: seed low, seed high, epoch, 0). Only those
///     that are used are declared.
///   buffers: "gradient/NAME" for every parameter, trainable or not (running statistics: the sum over samples of
///     the batch's statistic); "metric/NAME" f32 [1], sums over samples: "metric/loss" always, and
///     "metric/accuracy", "metric/top5" … as asked for; optimizer state "SLOT/NAME" ("momentum/…", "adam_m/…").
///   inputs of `update`: "learning_rate", "samples" (global count of the step), "step" (1 for the first), f32 [1].
struct TrainingStep {
  Graph gradient;    ///< forward and backward over some samples; adds sums, never means, to the buffers
  Graph update;      ///< divides by `samples`, clips if asked, applies the optimizer to every parameter
  Graph evaluation;  ///< forward in evaluation mode; adds to the metric buffers
  Graph prediction;  ///< forward in evaluation mode; output "prediction" [N, …]: logits or values
  std::vector<ParameterInfo> parameters;
  std::vector<std::string> metrics;  ///< names without "metric/", loss first
  size_t forward_nodes = 0;  ///< so many nodes of `gradient` come first and are forward, the rest is backward
};

}  // namespace telar
