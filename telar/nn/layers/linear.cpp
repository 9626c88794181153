#include "telar/nn/layers/linear.h"

#include "telar/core/error.h"
#include "telar/graph/ops/linear.h"
#include "telar/graph/ops/reshape.h"
#include "telar/nn/initializers.h"

namespace telar {

ValueId linear(ModelBuilder& model, const std::string& name, ValueId x, int64_t features, bool bias) {
  const ScopeGuard scope(model, name);
  const Shape shape = model.shape(x);
  if (shape.rank() < 2 || features < 1) {
    throw user_error(
        "layer '{}': linear with {} features on {}; it takes [N, …, inputs] and at least 1 feature",
        model.graph().scope(), features, shape.str());
  }
  const int64_t inputs = shape[shape.rank() - 1];
  const Initializer initializer = uniform_fan_in(inputs);
  const ValueId w = model.parameter("weight", {features, inputs}, initializer);
  const ValueId b = bias ? model.parameter("bias", {features}, initializer) : kNoValue;
  if (shape.rank() == 2) return linear(model, x, w, b);

  std::vector<int64_t> dims = shape.dims();
  dims.front() = -1;
  dims.back() = features;
  return reshape(model, linear(model, reshape(model, x, {-1, inputs}), w, b), dims);
}

}  // namespace telar
