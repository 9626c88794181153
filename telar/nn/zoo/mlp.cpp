#include <fmt/format.h>

#include "telar/nn/layers.h"
#include "telar/nn/zoo/entries.h"

namespace telar {

namespace {

Model make_mlp(const ZooOptions& options, const Shape& sample, int64_t classes) {
  const auto hidden = options.integers("hidden", {256, 256}, 1);
  const std::string chosen = options.choice("activation", "relu", activation_names());
  const double rate = options.rate("dropout", 0);
  return {"", sample, DType::f32, [=](ModelBuilder& model, ValueId x) {
            x = flatten(model, x);
            size_t layer = 1;
            for (const int64_t width : hidden) {
              x = activation(model, chosen, linear(model, fmt::format("fc{}", layer), x, width));
              x = dropout(model, fmt::format("drop{}", layer), x, rate);
              ++layer;
            }
            return linear(model, fmt::format("fc{}", layer), x, classes);
          }};
}

}  // namespace

ZooEntry mlp_entry() { return {"mlp", {"hidden", "activation", "dropout"}, make_mlp}; }

}  // namespace telar
