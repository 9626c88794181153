#pragma once

#include <nanobind/nanobind.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "telar/nn/external_model.h"

namespace telar::python {

/// A model with the values from which its training starts.
class PythonModel {
 public:
  /// Reads a model file (telar/io/model_file.h).
  explicit PythonModel(const std::string& path);
  /// Of graphs; checked as those of a model file are. The parameters have initial values.
  PythonModel(const std::string& name, ModelGraphs graphs);

  /// Whose loss, gradients and predictions `function` computes. It is called with the mode ("training",
  /// "evaluation", "prediction"), the numbers of the samples, and arrays: the parameters, the result, and in
  /// training the gradients (telar/graph/ops/external.h).
  PythonModel(const ExternalForm& form, nanobind::object function);

  const Model& model() const { return model_; }
  /// What must live as long as a session of the model; null for graphs of Telar's own operations.
  const std::shared_ptr<const ExternalModel>& external() const { return external_; }
  const ModelGraphs& graphs() const { return *model_.graphs; }

  /// Writes the model file, with the values that `values` gives by name, and its own for the others.
  void write(const std::string& path, const nanobind::dict& values) const;
  /// The same as an ONNX file (telar/io/onnx/onnx_file.h).
  void write_onnx(const std::string& path, const nanobind::dict& values) const;

 private:
  std::shared_ptr<const ExternalModel> external_;
  Model model_;
};

}  // namespace telar::python
