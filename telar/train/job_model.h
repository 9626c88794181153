#pragma once

#include "telar/nn/model.h"
#include "telar/train/job.h"
#include "telar/train/job_node.h"

namespace telar {

/// Reads the section "model": `name` and `options`, or `layers`. Throws Error (user) with the line: neither or both, an unknown
/// model, option, layer type or key, a layer that takes its input from one that does not stand before it.
ModelJob read_model_job(const JobNode& section);

/// The section as YAML, with every default.
std::string model_job_text(const ModelJob& model);

/// The model for samples of a shape and dtype. Throws Error (user) with the line of the layer, or of the model, that does not fit.
/// `outputs`: classes, or numbers to predict. Of layers of one's own the last one must give [N, outputs].
Model model_of_job(const ModelJob& job, const Shape& sample, DType input, int64_t outputs);

}  // namespace telar
