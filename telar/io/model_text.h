#pragma once

#include <map>
#include <string>

#include "telar/nn/model.h"

namespace telar {

/// What the text of a model file says: everything but the numbers of the parameters.
struct ModelText {
  std::string name;
  ModelGraphs graphs;                            ///< parameters without initializers
  std::map<std::string, std::string> checksums;  ///< of each parameter's numbers, by its name
};

/// As JSON text:
///
///     {"form": 1, "name": "mlp", "metrics": ["loss", "accuracy"],
///      "parameters": [{"name": "fc.weight", "role": "trained", "shape": [10, 64], "checksum": "93…"},
///                     {"name": "norm.running_mean", "role": "statistic", "momentum": 0.1, …},
///                     {"name": "mask", "role": "fixed", …}],
///      "training": […], "evaluation": […], "prediction": […]}
///
/// The last three are graphs as in telar/io/graph_json.h, of the operations of telar/io/model_operations.h.
std::string to_json(const ModelText& model);

/// Reads such a text. `source` is the file, for messages. Throws Error (user) for anything that does not
/// follow the conventions of telar/graph/training_step.h: each input is "x" or another tensor of the samples,
/// "sample" or "random"; each parameter is listed and used with its shape; each metric is added to once by the
/// graphs of training and evaluation, each running statistic once by that of training; the graphs hold for
/// any number of samples, and metrics are sums over them (telar/io/model_samples.h).
ModelText model_from_json(const std::string& text, const std::string& source);

}  // namespace telar
