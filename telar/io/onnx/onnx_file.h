#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "telar/graph/graph.h"
#include "telar/io/output_file.h"

namespace telar {

/// What a graph from samples to predictions becomes in a file.
struct OnnxForm {
  enum class Result : uint8_t {
    values,         ///< of the prediction, named "values"
    classes,        ///< softmax over the last axis, named "probabilities"
    probabilities,  ///< sigmoid of each number, named "probabilities"
  };
  std::string name;  ///< of the model
  Result result = Result::values;
  /// (x − mean) / std of the input "x" comes first: one pair of numbers for each item of axis 1, or one for
  /// all; none if empty.
  std::vector<double> mean = {};
  std::vector<double> std = {};
  bool wide = false;           ///< "x" is f64, because f32 would lose digits before the mean is subtracted
  std::string described = {};  ///< of the input "x", for people
  std::map<std::string, std::string> metadata = {};
};

/// Writes a model in evaluation mode as an ONNX file (IR version 8, operators of version 17), which ONNX
/// Runtime and others execute. `prediction`: its output is "prediction" (ModelGraphs::prediction), it
/// computes in f32, and the batch of its inputs becomes the symbol N. `give` fills in the values of a
/// parameter, in canonical order. The bytes depend only on the arguments. Throws Error (user), naming the
/// layer, for an operation that the file cannot have, and for parameters of 2 GB and more, which the format
/// cannot; failures to write throw as OutputFile does.
void write_onnx(OutputFile& file, const Graph& prediction,
                const std::function<void(const std::string& parameter, std::span<float> values)>& give,
                const OnnxForm& form);

}  // namespace telar
