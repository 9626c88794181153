#include "telar/nn/layers/embedding.h"

#include "telar/core/error.h"
#include "telar/graph/ops/embedding.h"
#include "telar/nn/initializers.h"

namespace telar {

ValueId embedding(ModelBuilder& model, const std::string& name, ValueId tokens, int64_t vocabulary,
                  int64_t width) {
  const ScopeGuard scope(model, name);
  if (vocabulary < 1 || width < 1) {
    throw user_error(
        "layer '{}': an embedding of {} tokens in {} numbers; both must be at least 1, and 'vocabulary' must be given if the data do not say how many tokens they have",
        model.graph().scope(), vocabulary, width);
  }
  return embedding(model, tokens, model.parameter("weight", {vocabulary, width}, standard_normal()));
}

}  // namespace telar
