#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "telar/graph/graph.h"

namespace telar {

/// Operations of the update graph. Each changes one parameter in place, from its gradient sum g; the mean
/// gradient is ĝ = g · factor / samples, where factor is 1 or `clip_factor`. Inputs f32 [1]: learning_rate,
/// samples, step. The operations are element-wise, so a device may run them on any flat range of the
/// parameters.
struct UpdateInputs {
  ValueId learning_rate = kNoValue;
  ValueId samples = kNoValue;
  ValueId step = kNoValue;         ///< 1 for the first update
  ValueId clip_factor = kNoValue;  ///< optional
  double rate = 1;                 ///< by which this parameter's learning rate is multiplied
};

/// ĝ += weight_decay·p;  m = momentum·m + ĝ (m = ĝ at step 1);  p −= lr·(nesterov ? ĝ + momentum·m : m).
/// PyTorch's form. In Keras's form, the learning rate is in the momentum: m = momentum·m + lr·ĝ;
/// p −= nesterov ? lr·ĝ + momentum·m : m. Without momentum there is no state.
struct SgdOptions {
  double momentum = 0;
  bool nesterov = false;
  double weight_decay = 0;
  bool keras = false;
};
void sgd_update(GraphBuilder& builder, const std::string& parameter, const UpdateInputs& inputs,
                const SgdOptions& options);

/// Adam (Kingma and Ba, 2015): m, v with bias correction, p −= lr·m̂ / (√v̂ + epsilon). weight_decay is added
/// to ĝ; with `decoupled` (AdamW, Loshchilov and Hutter, 2019), p −= lr·weight_decay·p comes first instead.
/// In Keras's form, epsilon is added to √v before its correction: √v̂ + epsilon / √(1 − beta2^step).
struct AdamOptions {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0;
  bool decoupled = false;
  bool keras = false;
};
void adam_update(GraphBuilder& builder, const std::string& parameter, const UpdateInputs& inputs,
                 const AdamOptions& options);

/// RMSprop (PyTorch's form): s = alpha·s + (1 − alpha)·ĝ²; u = ĝ / (√s + epsilon); with momentum
/// b = momentum·b + u; p −= lr·(b or u). In Keras's form, u = ĝ / √(s + epsilon), and the learning rate is in
/// the momentum: b = momentum·b + lr·u; p −= b.
struct RmspropOptions {
  double alpha = 0.99;
  double epsilon = 1e-8;
  double momentum = 0;
  double weight_decay = 0;
  bool keras = false;
};
void rmsprop_update(GraphBuilder& builder, const std::string& parameter, const UpdateInputs& inputs,
                    const RmspropOptions& options);

/// Adagrad (Duchi, Hazan and Singer, 2011; PyTorch's form): ĝ += weight_decay·p;  s += ĝ²;
/// p −= lr / (1 + (step − 1)·lr_decay) · ĝ / (√s + epsilon). s starts at 0.
struct AdagradOptions {
  double lr_decay = 0;
  double epsilon = 1e-10;
  double weight_decay = 0;
};
void adagrad_update(GraphBuilder& builder, const std::string& parameter, const UpdateInputs& inputs,
                    const AdagradOptions& options);

/// r = (1 − momentum)·r + momentum·(s / samples): a running statistic, where s is the sum of batch
/// statistics, each weighted by its number of samples. It is linear in s, so the number of contributing
/// workers does not matter.
void running_average_update(GraphBuilder& builder, const std::string& parameter, ValueId samples,
                            double momentum);

/// Σ g² over the gradients of the named parameters: f32 [1].
ValueId sum_of_squares(GraphBuilder& builder, const std::vector<std::string>& parameters);
/// min(1, max_norm / (√sum_of_squares / samples + 1e-6)): PyTorch's clip_grad_norm_ of the mean gradient.
ValueId clip_factor(GraphBuilder& builder, ValueId sum_of_squares, ValueId samples, double max_norm);

/// The operation of this file with this name ("adam_update"), or null. All of them check their inputs and
/// attributes (Op::infer), so they may be in a graph from outside.
const Op* find_update_operation(std::string_view name);
/// By which the learning rate of a parameter is multiplied (UpdateInputs::rate).
inline double rate_of_update(const Attributes& attributes) {
  return attributes.has("rate") ? attributes.real("rate") : 1;
}
/// The optimizer state of a node whose operation updates, in the order of its inputs: "adam_m", "adam_v".
std::vector<std::string> slots_of_update(const Node& node);
/// The number of a node's inputs that follow its parameter, gradient and slots: those of UpdateInputs.
inline constexpr size_t kUpdateScalars = 4;

}  // namespace telar
