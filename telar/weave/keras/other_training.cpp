// Training that is neither a model's fit() nor a loop with a GradientTape.
#include <algorithm>
#include <cctype>

#include "telar/weave/keras/program.h"

namespace telar::weave {

namespace {

bool imports_tensorflow(const Names& names) {
  return std::any_of(names.imports().begin(), names.imports().end(), [](const auto& import) {
    return import.first == "tensorflow" || import.first.starts_with("tensorflow.compat");
  });
}

bool is_session(const std::string& callee) {
  return callee.starts_with("tensorflow.") &&
         (callee.ends_with(".Session") || callee.ends_with(".InteractiveSession") ||
          callee.ends_with("MonitoredTrainingSession"));
}

/// An Estimator, if one trains.
const Node* training_estimator(const Names& names) {
  const Node* estimator = nullptr;
  bool trains = false;
  for (const Node* call : names.calls()) {
    const std::string& callee = names.callee(call);
    const bool of_tensorflow = callee.starts_with("tensorflow.") || callee.starts_with("keras.estimator.");
    if (of_tensorflow && callee.find("stimator") != std::string::npos && !callee.ends_with("EstimatorSpec") &&
        callee.find(".inputs.") == std::string::npos && estimator == nullptr)
      estimator = call;
    const Node* function = call->child("func");
    trains = trains || (function->is(Kind::attribute) &&
                        (function->text == "train" || function->text == "train_and_evaluate"));
  }
  return trains ? estimator : nullptr;
}

/// `with tf.device("/gpu:%i" % i)`: the script spreads its work over GPUs.
const Node* chosen_gpu(const Names& names) {
  for (const Node* call : names.calls()) {
    const Node* name =
        names.callee(call) == "tensorflow.device" ? names.argument(call, "device_name", 0) : nullptr;
    if (name == nullptr || name->is(Kind::constant)) continue;
    std::string text(names.tree().text(*name));
    std::transform(text.begin(), text.end(), text.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    if (text.find("gpu:") != std::string::npos) return call;
  }
  return nullptr;
}

/// `tuner.search(…)` of Keras Tuner.
const Node* search_of_tuner(const Names& names) {
  for (const Node* call : names.calls()) {
    const Node* function = call->child("func");
    if (!function->is(Kind::attribute) || function->text != "search") continue;
    for (const Node* origin : names.origins(function->child("value"))) {
      const std::string callee = origin->is(Kind::call) ? names.callee(origin) : "";
      if (callee.starts_with("keras_tuner.") || callee.starts_with("kerastuner.")) return call;
    }
  }
  return nullptr;
}

}  // namespace

const Node* trains_otherwise(const Names& names, bool trains_with_keras, std::string& reason) {
  if (const Node* search = search_of_tuner(names)) {
    reason =
        "Keras Tuner trains here, in its own code, which weave does not follow; keep the search as it is, and weave a script that trains the model it finds";
    return search;
  }
  if (!imports_tensorflow(names)) return nullptr;
  if (const Node* estimator = training_estimator(names)) {
    reason =
        "an Estimator trains, whose steps weave does not follow; train a Keras model with fit(), or write a loop with a tf.GradientTape";
    return estimator;
  }
  if (const Node* device = chosen_gpu(names)) {
    reason =
        "the script divides its work among GPUs itself, but each process or replica has one; remove it, and let weave divide the batches";
    return device;
  }
  if (trains_with_keras) return nullptr;
  const Node* minimizes = nullptr;
  const Node* applies = nullptr;
  bool session = false;
  for (const Node* call : names.calls()) {
    session = session || is_session(names.callee(call));
    const Node* function = call->child("func");
    if (!function->is(Kind::attribute)) continue;
    if (function->text == "minimize" && minimizes == nullptr) minimizes = call;
    if (function->text == "apply_gradients" && applies == nullptr) applies = call;
  }
  const Node* step = minimizes != nullptr ? minimizes : applies;
  if (step != nullptr && session) {
    reason =
        "this trains in a session of TensorFlow 1, whose steps weave does not follow; train a Keras model with fit(), or write a loop with a tf.GradientTape over a tf.data.Dataset";
    return step;
  }
  if (minimizes != nullptr) {
    reason =
        "minimize() computes and applies the gradients in one call, between which they cannot be averaged; compute them with a tf.GradientTape, and apply them with apply_gradients()";
    return minimizes;
  }
  if (applies != nullptr)
    reason = "the gradients that are applied here do not come from a tf.GradientTape; compute them with one";
  return applies;
}

}  // namespace telar::weave
