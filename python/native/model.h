#pragma once

#include <nanobind/nanobind.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "telar/nn/model.h"

namespace telar::python {

/// A model with the values from which its training starts.
class PythonModel {
 public:
  /// Reads a model file (telar/io/model_file.h).
  explicit PythonModel(const std::string& path);
  /// Of graphs; checked as those of a model file are. The parameters have initial values.
  PythonModel(const std::string& name, ModelGraphs graphs);

  const Model& model() const { return model_; }
  const ModelGraphs& graphs() const { return *model_.graphs; }

  /// Writes the model file, with the values that `values` gives by name, and its own for the others.
  void write(const std::string& path, const nanobind::dict& values) const;

 private:
  Model model_;
};

}  // namespace telar::python
