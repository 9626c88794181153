#pragma once

#include <string>
#include <vector>

#include "telar/weave/python/names.h"
#include "telar/weave/write/edits.h"

namespace telar::weave {

/// A call of `model.compile(…)`, `model.fit(…)` or a similar method.
struct KerasCall {
  const Node* call = nullptr;
  const Node* model = nullptr;  ///< the object of the method
  /// The model's class has its own train_step, which computes the gradients with a tape.
  bool own_step = false;
  /// The model's class has its own compile(): for a call of compile, that method; otherwise null.
  const Node* own_compile = nullptr;
};

/// `with tf.GradientTape() as tape:`
struct KerasTape {
  const Node* with = nullptr;
  const Node* variable = nullptr;
  bool persistent = false;
};

/// `for … in dataset`, also through enumerate and similar functions.
struct KerasLoop {
  const Node* loop = nullptr;
  const Node* dataset = nullptr;  ///< the dataset within the iterable
  const Node* index = nullptr;    ///< the counting variable of enumerate
  const Node* counted = nullptr;  ///< the call `dataset.enumerate()`
  bool trains = false;
};

/// A Keras or TensorFlow training script as weave understands it. Each node is in the tree of Names.
struct KerasProgram {
  bool standalone = false;  ///< imports `keras` itself, not tensorflow.keras
  bool sessions = false;    ///< uses TensorFlow 1 sessions
  std::vector<KerasCall> compiles;
  std::vector<KerasCall> fits;
  std::vector<KerasCall> evaluations;  ///< evaluate() and predict()
  std::vector<KerasTape> tapes;
  std::vector<KerasLoop> loops;
  std::vector<const Node*> optimizers;  ///< calls that create one
  std::vector<const Node*> schedules;   ///< learning-rate schedules
  std::vector<const Node*> callbacks;   ///< calls that create one
  std::vector<const Node*> models;      ///< calls that create one
};

/// Whether a program trains with Keras or TensorFlow: it fits a model, or applies the gradients of a tape.
bool trains_with_keras(const Names& names);

/// The training method of a compiled model, where it is passed on instead of called: `partial(model.fit, …)`,
/// `train = model.fit`. Null if there is none.
const Node* handed_fit(const Names& names);

/// What trains in a way that weave does not follow: an Estimator, a search of Keras Tuner, work that is
/// spread over GPUs by hand, and, if the program does not also train with Keras, a session or gradients of
/// another kind. Null if there is nothing. `reason`: what the user can change.
const Node* trains_otherwise(const Names& names, bool trains_with_keras, std::string& reason);

/// Reads a Keras or TensorFlow script. Throws Refusal if weave does not understand how it trains.
KerasProgram read_keras(const Names& names);

/// The optimizer of Keras from which a class of the script derives, as in "keras.optimizers.Adam"; empty if it
/// derives from none.
std::string optimizer_base(const Names& names, const Node* class_def);

/// Whether two expressions may be the same model: if they are one variable, if they have an origin in common,
/// or if the origin of one of them is unknown.
bool may_be_same_model(const Names& names, const Node* one, const Node* other);

/// The size of the batches that a function of Keras makes of files or of a series: argument and default.
struct BatchArgument {
  int position = -1;
  const char* standard = "";
};
/// For `keras.utils.image_dataset_from_directory` and similar functions; null for any other.
const BatchArgument* batch_argument(const std::string& callee);

/// Whether an expression is known to be a tf.data.Dataset.
bool is_dataset(const Names& names, const Node* expression);
/// Whether a method of a dataset passes samples or batches on one by one, so the dataset may be divided
/// before it.
bool keeps_order(std::string_view method);

}  // namespace telar::weave
