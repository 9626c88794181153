#include "telar/core/error.h"
#include "telar/nn/layers.h"
#include "telar/nn/zoo/entries.h"

namespace telar {

namespace {

/// Joulin et al., "Bag of tricks for efficient text classification", 2016: the order of words does not count.
Model make_text_classifier(const ZooOptions& options, const Shape& sample, int64_t classes) {
  if (sample.rank() != 1)
    throw user_error("model 'text_classifier' takes samples [T] of token ids, not {}", sample.str());
  const int64_t vocabulary = options.required_integer("vocabulary", 1);
  const int64_t width = options.integer("width", 64, 1, 1 << 16);
  return {"", sample, DType::i32, [=](ModelBuilder& model, ValueId tokens) {
            const ValueId x = embedding(model, "embedding", tokens, vocabulary, width);
            return linear(model, "fc", masked_mean(model, "mean", x, tokens), classes);
          }};
}

}  // namespace

ZooEntry text_classifier_entry() {
  return {"text_classifier", {"width", "vocabulary"}, make_text_classifier};
}

}  // namespace telar
