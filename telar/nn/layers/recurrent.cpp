#include "telar/nn/layers/recurrent.h"

#include "telar/core/error.h"
#include "telar/nn/initializers.h"
#include "telar/nn/layers/dropout.h"

namespace telar {

namespace {

using Layer = RecurrentResult (*)(GraphBuilder&, ValueId, const RecurrentParameters&, ValueId,
                                  const RecurrentStates&);

RecurrentResult stack(ModelBuilder& model, const std::string& name, ValueId x,
                      const RecurrentOptions& options, ValueId lengths, int64_t gates, Layer layer) {
  const ScopeGuard scope(model, name);
  model.require_rank("a recurrent layer", x, 3);
  if (options.hidden < 1 || options.layers < 1) {
    throw user_error("layer '{}': {} recurrent layers of {} hidden units; both must be at least 1",
                     model.graph().scope(), options.layers, options.hidden);
  }
  const Initializer initializer = uniform_fan_in(options.hidden);
  const int64_t rows = product_of({gates, options.hidden});
  RecurrentResult result;
  for (int64_t l = 0; l < options.layers; ++l) {
    if (l > 0) x = dropout(model, fmt::format("dropout_l{}", l - 1), result.y, options.dropout);
    const auto parameter = [&](const char* what, const Shape& shape) {
      return model.parameter(fmt::format("{}_l{}", what, l), shape, initializer);
    };
    RecurrentParameters parameters;
    parameters.weight_ih = parameter("weight_ih", {rows, model.shape(x)[2]});
    parameters.weight_hh = parameter("weight_hh", {rows, options.hidden});
    if (options.bias) {
      parameters.bias_ih = parameter("bias_ih", {rows});
      parameters.bias_hh = parameter("bias_hh", {rows});
    }
    result = layer(model, x, parameters, lengths, {});
  }
  return result;
}

}  // namespace

RecurrentResult lstm(ModelBuilder& model, const std::string& name, ValueId x, const RecurrentOptions& options,
                     ValueId lengths) {
  return stack(model, name, x, options, lengths, 4, lstm);
}

RecurrentResult gru(ModelBuilder& model, const std::string& name, ValueId x, const RecurrentOptions& options,
                    ValueId lengths) {
  return stack(model, name, x, options, lengths, 3, gru);
}

}  // namespace telar
