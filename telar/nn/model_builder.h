#pragma once

#include <string>
#include <vector>

#include "telar/graph/graph.h"
#include "telar/graph/training_step.h"

namespace telar {

/// What the graph under construction is for: batch norm and dropout differ between the two.
enum class Mode : uint8_t { training, evaluation };

/// A running statistic of the model and how fast it follows: r = (1 − momentum)·r + momentum·(batch statistic).
struct RunningStatistic {
  std::string name;
  double momentum = 0.1;
};

/// A GraphBuilder that also knows the mode and collects the model's parameters in the order of their declaration.
/// Layers (telar/nn/layers.h) take one; it converts to a GraphBuilder, so that every function of telar/graph/ops
/// takes one too: `relu(model, x)`.
class ModelBuilder {
 public:
  explicit ModelBuilder(Mode mode) : mode_(mode) {}

  Mode mode() const { return mode_; }
  bool training() const { return mode_ == Mode::training; }

  GraphBuilder& graph() { return graph_; }
  operator GraphBuilder&() {
    return graph_;
  }  // NOLINT(google-explicit-constructor): a model is a graph with more
  Shape shape(ValueId value) const { return graph_.type(value).shape; }

  /// Declares the f32 parameter "SCOPE.name", SCOPE being the graph's present scope. Names become PyTorch's when
  /// scopes are: ScopeGuard(model, "layer1.0.conv1"), then parameter("weight", …). Declared again with the same shape
  /// it is one parameter with two uses; with another shape it throws Error (user).
  ValueId parameter(const std::string& name, const Shape& shape, const Initializer& initializer);

  /// Declares the running statistic "SCOPE.name". Evaluation reads it. Training adds `batch_statistic` (f32, of `shape`)
  /// × the samples of `batch_of` to the buffer "gradient/SCOPE.name" and returns kNoValue.
  ValueId running_statistic(const std::string& name, const Shape& shape, double initial, double momentum,
                            ValueId batch_statistic, ValueId batch_of);

  const std::vector<ParameterInfo>& parameters() const { return parameters_; }
  const std::vector<RunningStatistic>& running_statistics() const { return running_statistics_; }

  /// Throws Error (user), naming the layer, unless x has one of two ranks.
  void require_rank(const char* layer, ValueId x, size_t rank, size_t or_rank = 0) const;

 private:
  std::string scoped(const std::string& name) const;
  bool record(const ParameterInfo& parameter);

  Mode mode_;
  GraphBuilder graph_;
  std::vector<ParameterInfo> parameters_;
  std::vector<RunningStatistic> running_statistics_;
};

}  // namespace telar
