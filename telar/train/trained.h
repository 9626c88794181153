#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "telar/runtime/session.h"
#include "telar/train/job.h"
#include "telar/train/trainer.h"

namespace telar {

/// A trained model, ready to evaluate and predict.
struct Trained {
  std::filesystem::path checkpoint;
  Job job;  ///< as run, with the overrides
  SampleSpec spec;
  std::unique_ptr<Session> session;
};

/// Loads the newest (or the `best`) checkpoint of a run folder, or a checkpoint. Every byte is verified. It computes on the devices that
/// it was trained on; where one of them is not here and the overrides name no others, on processors, and `warn` is told. What was trained
/// in tf32, which processors have not, is computed in f32 on them. Throws Error (user).
Trained load_trained(const std::filesystem::path& run_or_checkpoint, bool best,
                     const std::vector<std::string>& overrides = {},
                     const std::function<void(const std::string&)>& warn = {});

/// Means of the metrics over data that look as the model's samples must. Throws Error (user) when they do not.
std::vector<double> evaluate(const Trained& trained, const Dataset& data);

/// The model's outputs, [samples, outputs] in rows; `softmax` turns logits into probabilities.
std::vector<float> predict(const Trained& trained, const Dataset& data, bool softmax);

/// Samples to predict from a file: a JPEG or PNG picture (resized to the model's size), IDX images, a .npy array or a CSV
/// table of features (told by the content), normalised as in training. Throws Error (user) when they do not fit the model.
DatasetPtr open_inputs(const Trained& trained, const std::string& path);

}  // namespace telar
