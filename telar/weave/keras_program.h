#pragma once

#include <string>
#include <vector>

#include "telar/weave/edits.h"
#include "telar/weave/names.h"

namespace telar::weave {

/// `model.compile(…)`, `model.fit(…)` and the like.
struct KerasCall {
  const Node* call = nullptr;
  const Node* model = nullptr;  ///< the expression that it is called on
  /// The model's class computes the gradients itself, in a train_step with a tape.
  bool own_step = false;
};

/// `with tf.GradientTape() as tape:`
struct KerasTape {
  const Node* with = nullptr;
  const Node* variable = nullptr;
  bool persistent = false;
};

/// `for … in dataset`, also through enumerate and the like.
struct KerasLoop {
  const Node* loop = nullptr;
  const Node* dataset = nullptr;  ///< the expression of the dataset inside the iterable
  const Node* index = nullptr;    ///< the counting variable of enumerate
  bool trains = false;
};

/// A Keras or TensorFlow training script as weave understands it.
struct KerasProgram {
  bool standalone = false;  ///< it imports `keras` itself, not tensorflow.keras
  bool sessions = false;    ///< it uses sessions of TensorFlow 1
  std::vector<KerasCall> compiles;
  std::vector<KerasCall> fits;
  std::vector<KerasCall> evaluations;  ///< evaluate and predict
  std::vector<KerasTape> tapes;
  std::vector<KerasLoop> loops;
  std::vector<const Node*> optimizers;  ///< calls that make one
  std::vector<const Node*> schedules;   ///< of learning rates
  std::vector<const Node*> callbacks;   ///< calls that make one
  std::vector<const Node*> models;      ///< calls that make one
};

/// Whether a file trains with Keras or TensorFlow: it fits a model, or applies gradients of a tape.
bool trains_with_keras(const Names& names);

/// The method of a compiled model that trains, where it is handed on instead of called: `partial(model.fit, …)`,
/// `train = model.fit`. Null when there is none.
const Node* handed_fit(const Names& names);

/// Reads it. Throws Refusal where the training is of a kind that is not understood.
KerasProgram read_keras(const Names& names);

/// Whether an expression is a tf.data.Dataset, as far as can be seen.
bool is_dataset(const Names& names, const Node* expression);
/// Whether the method gives samples or batches on one by one, so that sharing out may happen before it.
bool keeps_order(std::string_view method);

}  // namespace telar::weave
