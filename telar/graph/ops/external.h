#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "telar/graph/graph.h"

namespace telar {

enum class ExternalMode : uint8_t { training, evaluation, prediction };

/// What a function of somebody else's computes of some samples of a batch, on a CPU. The memory is valid
/// during the call.
struct ExternalCall {
  ExternalMode mode = ExternalMode::training;
  std::span<const int32_t> rows;                   ///< the samples, by what the batch's input x contains
  std::vector<std::span<const float>> parameters;  ///< current values, in the order of ExternalForm
  /// To be written: the loss, one number, summed over the samples; or the predictions, one after another.
  std::span<float> result;
  /// In training, to be written: for each trained parameter the sum over the samples of its gradient, for
  /// each statistic its new value times the number of samples.
  std::vector<std::span<float>> gradients;
};

/// Called on the thread of each worker, by several at the same time. It may throw; the step then ends so.
using ExternalFunction = std::function<void(const ExternalCall&)>;

/// A function under a name by which graphs call it, as long as the object lives.
class ExternalRegistration {
 public:
  explicit ExternalRegistration(ExternalFunction function);
  ~ExternalRegistration();
  ExternalRegistration(const ExternalRegistration&) = delete;
  ExternalRegistration& operator=(const ExternalRegistration&) = delete;
  const std::string& name() const { return name_; }

 private:
  std::string name_;
};

/// Throws Error (run) if there is no such function any more.
std::shared_ptr<const ExternalFunction> external_function(const std::string& name);

/// The loss, f32 [1], and in training the gradient of each parameter. rows: i32 [N]; parameters: f32, any
/// shape. The loss can only be added to the metric of that name: its gradient is that of the function.
std::vector<ValueId> external_loss(GraphBuilder& builder, ValueId rows,
                                   const std::vector<ValueId>& parameters, const std::string& function,
                                   ExternalMode mode);
/// The predictions, f32 [N, sample…].
ValueId external_prediction(GraphBuilder& builder, ValueId rows, const std::vector<ValueId>& parameters,
                            const std::string& function, const Shape& sample);

/// The mode of a node of these functions.
ExternalMode external_mode(const Attributes& attributes);

}  // namespace telar
