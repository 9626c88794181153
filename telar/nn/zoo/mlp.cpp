#include <fmt/format.h>

#include "telar/nn/layers.h"
#include "telar/nn/zoo/entries.h"

namespace telar {

namespace {

ValueId activate(ModelBuilder& model, ValueId x, const std::string& activation) {
  if (activation == "gelu") return gelu(model, x);
  if (activation == "sigmoid") return sigmoid(model, x);
  if (activation == "tanh") return tanh(model, x);
  return relu(model, x);
}

Model make_mlp(const ZooOptions& options, const Shape& sample, int64_t classes) {
  const auto hidden = options.integers("hidden", {256, 256}, 1);
  const std::string activation = options.choice("activation", "relu", {"relu", "gelu", "sigmoid", "tanh"});
  const double rate = options.rate("dropout", 0);
  return {"", sample, DType::f32, [=](ModelBuilder& model, ValueId x) {
            x = flatten(model, x);
            size_t layer = 1;
            for (const int64_t width : hidden) {
              x = activate(model, linear(model, fmt::format("fc{}", layer), x, width), activation);
              x = dropout(model, fmt::format("drop{}", layer), x, rate);
              ++layer;
            }
            return linear(model, fmt::format("fc{}", layer), x, classes);
          }};
}

}  // namespace

ZooEntry mlp_entry() { return {"mlp", {"hidden", "activation", "dropout"}, make_mlp}; }

}  // namespace telar
