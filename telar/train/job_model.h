#pragma once

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

/// The model, not of a file, for samples of a shape and dtype. Throws Error (user) with the line of the layer
/// or model that does not fit. `outputs` is the number of classes, or of values to predict. If the job lists
/// the layers, the last one must produce [N, outputs].
Model model_of_job(const ModelJob& job, const Shape& sample, DType input, int64_t outputs);

/// Whether both sections describe the same model: model files are known by their checksums, not by where they
/// are.
bool same_model(const ModelJob& a, const ModelJob& b);

}  // namespace telar
