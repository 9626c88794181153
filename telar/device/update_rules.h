#pragma once

namespace telar {

/// Parameters of one element-wise pass of an optimizer, the same on every device. For formulas and sources
/// see telar/graph/ops/update.h. The gradient sum is first multiplied by `scale` (clip factor / samples).

struct SgdRule {
  float learning_rate, scale, momentum, weight_decay;
  bool nesterov, first;
};

struct AdamRule {
  float learning_rate, scale, beta1, beta2, epsilon, weight_decay;
  float correction1, correction2_root;  ///< 1 − beta1^t and √(1 − beta2^t)
  bool decoupled;
};

struct RmspropRule {
  float learning_rate;  ///< of the step: 1 if the momentum has it
  float rate_in_momentum;
  float scale, alpha;
  float epsilon, epsilon_in_root;  ///< √(s + epsilon_in_root) + epsilon
  float momentum, weight_decay;
};

struct AdagradRule {
  float learning_rate;  ///< after decay by lr_decay
  float scale, epsilon, weight_decay;
};

struct RunningAverageRule {
  float momentum, scale;
};

}  // namespace telar
