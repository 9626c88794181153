#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "telar/graph/ops/update.h"
#include "telar/graph/training_step.h"
#include "telar/nn/loss.h"
#include "telar/nn/model.h"

namespace telar {

enum class Precision : uint8_t { f32, bf16 };

/// How convolutions are computed.
enum class Convolution : uint8_t {
  direct,  ///< by their definition
  /// 3×3 kernels at stride 1 in f32 use Winograd's F(4×4, 3×3) where that is faster: fewer multiplications,
  /// errors of 1e-6
  winograd
};

/// AdamW is AdamOptions with `decoupled`.
using Optimizer = std::variant<SgdOptions, AdamOptions, RmspropOptions, AdagradOptions>;

/// The optimizer of a parameter with options of its own.
struct ParameterOptimizer {
  Optimizer optimizer = SgdOptions{};
  double rate = 1;  ///< by which the step's learning rate is multiplied
};

struct StepOptions {
  int64_t batch = 32;  ///< batch size of the graphs; Graph::with_batch gives others
  Loss loss = Loss::cross_entropy;
  LossOptions loss_options = {};
  Optimizer optimizer = SgdOptions{};
  /// Of parameters that have not the one above, by name.
  std::map<std::string, ParameterOptimizer> own_optimizers = {};
  std::optional<double> clip_norm;  ///< upper limit of the mean gradient's norm over all parameters
  /// Metrics of classification: 1 is "accuracy", 5 is "top5". Ignored for numbers.
  std::vector<int64_t> top_k = {1};
  std::vector<std::string> metrics = {};  ///< further ones (telar/nn/metrics.h)
  std::vector<double> target_mean = {};   ///< near the mean of each number of the labels; for r2. Empty: 0
  Precision precision = Precision::f32;
  Convolution convolution = Convolution::direct;
  /// Which parameters are trained, by name; if empty, all. The others get ParameterInfo::trainable = false
  /// and have neither gradient nor update.
  std::function<bool(const std::string&)> trains;
};

/// The graphs of a model, with the loss and metrics of the options. Those of a model that came as graphs are
/// its own. Throws Error (user): batch below 1, label smoothing out of range, a layer whose input does not
/// fit, a prediction that does not fit the loss.
ModelGraphs graphs_of(const Model& model, const StepOptions& options);

/// The sequential training step of a model, following the conventions of telar/graph/training_step.h. Updates
/// are in the order in which the gradient graph produces the gradients, running statistics included. Throws
/// Error (user) as graphs_of() does; also for a clip norm out of range, and if there is nothing to train.
TrainingStep make_training_step(const Model& model, const StepOptions& options);

}  // namespace telar
