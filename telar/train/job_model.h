#pragma once

#include "telar/data/dataset.h"
#include "telar/nn/model.h"
#include "telar/train/job.h"
#include "telar/train/job_node.h"

namespace telar {

/// Reads the section "model": `name` and `options`, `layers`, or `file`; and `weights`
/// and `freeze`. Opens no file. Throws Error (user)
/// with the line: none or several of the three; an unknown model, option, layer type or key; an input that is
/// not an earlier layer.
ModelJob read_model_job(const JobNode& section);

/// The section as YAML, including all defaults.
std::string model_job_text(const ModelJob& model);

/// The model, not of a file, for such samples. Throws Error (user) with the line of the layer or model that
/// does not fit. The last layer must produce the prediction_of() the samples.
Model model_of_job(const ModelJob& given, const SampleSpec& spec);

/// What a model predicts of a sample: [classes], [positions, classes], or the shape of the targets.
Shape prediction_of(const SampleSpec& spec);
/// The classes, or the values to predict.
int64_t outputs_of(const SampleSpec& spec);

/// Whether both sections describe the same model: model files are known by their checksums, not by where they
/// are.
bool same_model(const ModelJob& a, const ModelJob& b);

}  // namespace telar
