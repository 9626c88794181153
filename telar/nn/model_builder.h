#pragma once

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "telar/graph/graph.h"
#include "telar/graph/training_step.h"

namespace telar {

/// The purpose of the graph under construction: batch norm and dropout differ between the two.
enum class Mode : uint8_t { training, evaluation };

/// A running statistic of the model and its momentum: r = (1 − momentum)·r + momentum·(batch statistic).
struct RunningStatistic {
  std::string name;
  double momentum = 0.1;
};

/// A GraphBuilder that also knows the mode and collects the model's parameters in the order of their
/// declaration. Layers (telar/nn/layers.h) take a ModelBuilder. It converts to a GraphBuilder, so every
/// function of telar/graph/ops accepts it too: `relu(model, x)`.
class ModelBuilder {
 public:
  /// `batch`: samples of the graph's inputs. `frozen`: see Model.
  explicit ModelBuilder(Mode mode, int64_t batch = 1, std::function<bool(const std::string&)> frozen = {})
      : mode_(mode), batch_(batch), frozen_(std::move(frozen)) {}

  Mode mode() const { return mode_; }
  int64_t batch() const { return batch_; }
  bool training() const { return mode_ == Mode::training; }

  GraphBuilder& graph() { return graph_; }
  operator GraphBuilder&() {
    return graph_;
  }  // NOLINT(google-explicit-constructor): to use a model where a graph is expected
  Shape shape(ValueId value) const { return graph_.type(value).shape; }

  /// Declares an input of each sample besides "x": [N, sample…], batched. `name`: of the tensor of the
  /// batches (telar/data/batch_source.h). A second declaration of the same form returns the same input;
  /// another form throws Error (user).
  ValueId input(const std::string& name, DType dtype, const Shape& sample);

  /// Declares the f32 parameter "SCOPE.name", where SCOPE is the graph's current scope. Names match PyTorch's
  /// when scopes do: ScopeGuard(model, "layer1.0.conv1"), then parameter("weight", …). A second declaration
  /// with the same shape returns the same parameter; with another shape it throws Error (user).
  ValueId parameter(const std::string& name, const Shape& shape, const Initializer& initializer);

  /// Whether the values of the parameter "SCOPE.name" stay in training.
  bool is_frozen(const std::string& name) const { return frozen_ && frozen_(scoped(name)); }

  /// Declares the running statistic "SCOPE.name". In evaluation, or if it is frozen, returns its value. Else,
  /// adds
  /// `batch_statistic` (f32, of `shape`) × the number of samples of `batch_of` to its gradient buffer, and
  /// returns kNoValue.
  ValueId running_statistic(const std::string& name, const Shape& shape, double initial, double momentum,
                            ValueId batch_statistic, ValueId batch_of);

  const std::vector<ParameterInfo>& parameters() const { return parameters_; }
  const std::vector<RunningStatistic>& running_statistics() const { return running_statistics_; }

  /// Throws Error (user), naming the layer, unless x has one of the two ranks.
  void require_rank(const char* layer, ValueId x, size_t rank, size_t or_rank = 0) const;

 private:
  std::string scoped(const std::string& name) const;
  bool record(const ParameterInfo& parameter);

  Mode mode_;
  int64_t batch_;
  std::function<bool(const std::string&)> frozen_;
  std::map<std::string, std::pair<TensorType, ValueId>> inputs_;
  GraphBuilder graph_;
  std::vector<ParameterInfo> parameters_;
  std::vector<RunningStatistic> running_statistics_;
};

}  // namespace telar
