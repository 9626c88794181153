#include "telar/core/error.h"
#include "telar/nn/layers.h"
#include "telar/nn/zoo/entries.h"

namespace telar {

namespace {

/// Feeds the last layer's state after the last step into one linear layer.
ValueId classify(ModelBuilder& model, ValueId x, const RecurrentOptions& recurrent, int64_t classes) {
  return linear(model, "fc", lstm(model, "lstm", x, recurrent).hidden, classes);
}

Model make_lstm(const ZooOptions& options, const Shape& sample, int64_t classes) {
  const RecurrentOptions recurrent{.hidden = options.integer("hidden", 128, 1),
                                   .layers = options.integer("layers", 1, 1, ZooOptions::kMostLayers),
                                   .dropout = options.rate("dropout", 0)};
  if (sample.rank() == 2) {
    return {"", sample, DType::f32,
            [=](ModelBuilder& model, ValueId x) { return classify(model, x, recurrent, classes); }};
  }
  if (sample.rank() != 1) {
    throw user_error("model 'lstm' takes samples [T] of token ids or [T, features], not {}", sample.str());
  }
  const int64_t vocabulary = options.required_integer("vocabulary", 1);
  const int64_t width = options.integer("embedding", 128, 1);
  return {"", sample, DType::i32, [=](ModelBuilder& model, ValueId x) {
            return classify(model, embedding(model, "embedding", x, vocabulary, width), recurrent, classes);
          }};
}

}  // namespace

ZooEntry lstm_entry() {
  return {"lstm", {"hidden", "layers", "dropout", "vocabulary", "embedding"}, make_lstm};
}

}  // namespace telar
