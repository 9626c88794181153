#include "telar/nn/layers/normalisation.h"

#include "telar/core/error.h"
#include "telar/graph/ops/batch_norm.h"
#include "telar/graph/ops/layer_norm.h"
#include "telar/nn/initializers.h"

namespace telar {

ValueId batch_norm(ModelBuilder& model, const std::string& name, ValueId x, const BatchNormOptions& options) {
  const ScopeGuard scope(model, name);
  model.require_rank("batch_norm", x, 4, 2);
  if (options.epsilon <= 0 || options.momentum < 0 || options.momentum > 1) {
    throw user_error(
        "layer '{}': batch_norm with epsilon {} and momentum {}; epsilon must be above 0, momentum 0 to 1",
        model.graph().scope(), options.epsilon, options.momentum);
  }
  const Shape channels{model.shape(x)[1]};
  const ValueId gamma = model.parameter("weight", channels, constant_initializer(1));
  const ValueId beta = model.parameter("bias", channels, constant_initializer(0));

  const bool by_batch = model.training() && !model.is_frozen("running_mean");
  BatchNormResult batch;
  if (by_batch) batch = batch_norm(model, x, gamma, beta, options.epsilon);
  const ValueId mean = model.running_statistic("running_mean", channels, 0, options.momentum, batch.mean, x);
  const ValueId variance =
      model.running_statistic("running_var", channels, 1, options.momentum, batch.variance, x);
  if (by_batch) return batch.y;
  return batch_norm_inference(model, x, gamma, beta, mean, variance, options.epsilon);
}

ValueId layer_norm(ModelBuilder& model, const std::string& name, ValueId x, double epsilon) {
  const ScopeGuard scope(model, name);
  const Shape shape = model.shape(x);
  if (shape.rank() < 2 || epsilon <= 0) {
    throw user_error(
        "layer '{}': layer_norm with epsilon {} on {}; epsilon must be above 0, the input [N, …, features]",
        model.graph().scope(), epsilon, shape.str());
  }
  const Shape features{shape[shape.rank() - 1]};
  const ValueId gamma = model.parameter("weight", features, constant_initializer(1));
  const ValueId beta = model.parameter("bias", features, constant_initializer(0));
  return layer_norm(model, x, gamma, beta, epsilon);
}

}  // namespace telar
