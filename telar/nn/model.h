#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "telar/nn/model_builder.h"

namespace telar {

/// A network as graphs: what a training step is made of, and what a model file contains
/// (telar/io/model_file.h). They follow the conventions of telar/graph/training_step.h, compute in f32, and
/// can be made for any batch (Graph::with_batch).
struct ModelGraphs {
  Graph training;    ///< forward with loss and metrics; adds to metrics and to running statistics
  Graph evaluation;  ///< the same in evaluation mode; adds to metrics only
  Graph prediction;  ///< forward in evaluation mode; its output is "prediction"
  std::vector<ParameterInfo> parameters;  ///< in the order of their declaration
  std::vector<RunningStatistic> running_statistics;
  std::vector<std::string> metrics;  ///< loss first
};

/// A network: the form of one sample, and how the graph is built. `build` is called once for each mode and
/// must declare the same parameters in both. To define your own network:
///
///   Model model{"tiny", {1, 28, 28}, DType::f32, [](ModelBuilder& m, ValueId x) {
///     x = relu(m, conv2d(m, "conv1", x, {.channels = 16, .kernel = 3, .padding = 1}));
///     x = max_pool(m, x, {});
///     x = relu(m, linear(m, "fc1", flatten(m, x), 64));
///     return linear(m, "fc2", dropout(m, "drop", x, 0.5), 10);
///   }};
///
/// A network with several inputs declares the others: `m.input("second", DType::f32, {1, 28, 28})`.
struct Model {
  std::string name;
  Shape sample;  ///< of one sample, without the batch: images [C, H, W], sequences [T] or [T, features]
  DType input = DType::f32;  ///< i32 for token ids
  /// From x [N, sample …] to the prediction [N, …]: logits for classification.
  std::function<ValueId(ModelBuilder& model, ValueId x)> build;
  /// A loss of the model's own, from the prediction and inputs that it declares (ModelBuilder::input): labels
  /// of any form, weights of samples. The losses of the samples, [N], or their sum, [1]; not a mean over the
  /// samples, which would depend on how a batch is divided. Absent: StepOptions::loss, with the input
  /// "label".
  std::function<ValueId(ModelBuilder& model, ValueId prediction)> loss = {};
  /// In place of `build` and `loss`: a network that came as graphs.
  std::shared_ptr<const ModelGraphs> graphs = nullptr;
  /// Parameters and running statistics whose values stay, by name: they are not trained, and a batch norm
  /// takes its running statistics in training, too. Absent: none.
  std::function<bool(const std::string& parameter)> frozen = {};
};

/// The model's forward graph alone: inputs "x" and those that the model declares,
/// output "prediction". Throws Error (user), naming the layer,
/// when the input of a layer does not fit; Error (run) for training mode if the model came as graphs.
Graph forward_graph(const Model& model, Mode mode, int64_t batch);

/// All parameters, including running statistics (trainable = false), in the order of their declaration.
std::vector<ParameterInfo> parameters_of(const Model& model);

/// How many numbers are trained. Running statistics are not counted, as in PyTorch's tables.
int64_t trainable_count(const std::vector<ParameterInfo>& parameters);

}  // namespace telar
