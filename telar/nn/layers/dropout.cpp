#include "telar/nn/layers/dropout.h"

#include "telar/core/error.h"
#include "telar/graph/ops/dropout.h"

namespace telar {

ValueId dropout(ModelBuilder& model, const std::string& name, ValueId x, double rate) {
  const ScopeGuard scope(model, name);
  if (!(rate >= 0 && rate < 1)) {
    throw user_error("layer '{}': the dropout rate is {}; it must be at least 0 and below 1",
                     model.graph().scope(), rate);
  }
  if (!model.training() || rate == 0) return x;
  const ValueId sample = model.graph().input("sample", {DType::i32, {model.shape(x)[0], 2}}, true);
  const ValueId random = model.graph().input("random", {DType::i32, {4}}, false);
  return dropout(model, x, rate, sample, random);
}

}  // namespace telar
