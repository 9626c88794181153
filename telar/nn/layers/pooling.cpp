#include "telar/nn/layers/pooling.h"

#include "telar/core/error.h"
#include "telar/graph/ops/math.h"
#include "telar/graph/ops/matmul.h"
#include "telar/graph/ops/pooling.h"
#include "telar/graph/ops/reduce.h"
#include "telar/graph/ops/reshape.h"
#include "telar/graph/ops/whole_numbers.h"

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

ValueId masked_mean(ModelBuilder& model, const std::string& name, ValueId x, ValueId tokens) {
  const ScopeGuard scope(model, name);
  const TensorType values = model.graph().type(x);
  const TensorType ids = model.graph().type(tokens);
  if (values.shape.rank() != 3 || ids.dtype != DType::i32 || ids.shape.rank() != 2 ||
      values.shape[1] != ids.shape[1]) {
    throw user_error("layer '{}': masked_mean takes values [N, T, D] and tokens i32 [N, T], not {} and {}",
                     model.graph().scope(), values.str(), ids.str());
  }
  const int64_t length = ids.shape[1];
  const ValueId counts = clamp(model, to_numbers(model, tokens), 0, 1);
  const ValueId sum = matmul(model, reshape(model, counts, {-1, 1, length}), x);
  const ValueId number = clamp(model, reduce_sum(model, counts, {1}, true), 1, static_cast<double>(length));
  return divide(model, reshape(model, sum, {-1, values.shape[2]}), number);
}

}  // namespace telar
