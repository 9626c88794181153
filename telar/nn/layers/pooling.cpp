#include "telar/nn/layers/pooling.h"

#include "telar/core/error.h"
#include "telar/graph/ops/pooling.h"

namespace telar {

namespace {

PoolOptions options_of(const std::string& layer, Extent kernel, Extent stride, Extent padding) {
  if (stride.h < 1 || stride.w < 1) {
    throw user_error("layer '{}': the pool's stride is [{}, {}]; it must be at least 1", layer, stride.h,
                     stride.w);
  }
  return {kernel.h, kernel.w, stride.h, stride.w, padding.h, padding.w};
}

}  // namespace

ValueId max_pool(ModelBuilder& model, const std::string& name, ValueId x, Extent kernel, Extent stride,
                 Extent padding) {
  const ScopeGuard scope(model, name);
  return max_pool(model, x, options_of(model.graph().scope(), kernel, stride, padding));
}

ValueId average_pool(ModelBuilder& model, const std::string& name, ValueId x, Extent kernel, Extent stride,
                     Extent padding) {
  const ScopeGuard scope(model, name);
  return average_pool(model, x, options_of(model.graph().scope(), kernel, stride, padding));
}

ValueId global_average_pool(ModelBuilder& model, const std::string& name, ValueId x) {
  const ScopeGuard scope(model, name);
  model.require_rank("global_average_pool", x, 4);
  return global_average_pool(model, x);
}

}  // namespace telar
