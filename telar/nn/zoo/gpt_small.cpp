#include <cmath>

#include "telar/core/error.h"
#include "telar/graph/ops/constant.h"
#include "telar/graph/ops/embedding.h"
#include "telar/graph/ops/math.h"
#include "telar/graph/ops/matmul.h"
#include "telar/graph/ops/order.h"
#include "telar/graph/ops/transpose.h"
#include "telar/graph/ops/whole_numbers.h"
#include "telar/nn/layers.h"
#include "telar/nn/zoo/entries.h"

namespace telar {

namespace {

struct GptSizes {
  int64_t layers = 4;
  int64_t heads = 4;
  int64_t width = 128;
  int64_t length = 0;
  double dropout = 0;
};

constexpr double kMasked = -1e9;              // in f32, its exponential is 0 beside any score
constexpr double kEmbeddingDeviation = 0.02;  // of GPT-2

ValueId table(ModelBuilder& model, const std::string& name, int64_t rows, int64_t width) {
  const ScopeGuard scope(model, name);
  return model.parameter("weight", {rows, width}, {Initializer::Kind::normal, 0, kEmbeddingDeviation});
}

/// [T, T]: 0 where the column is at most the row, otherwise kMasked. Equal numbers in order are at positions
/// 0, 1, 2 ….
ValueId causal_mask(GraphBuilder& graph, int64_t length) {
  const ValueId column = to_numbers(graph, order(graph, constant(graph, 0, {1, length}), 1, length, false));
  const ValueId row = reshape(graph, column, {length, 1});
  const ValueId before = add(graph, row, scale(graph, column, -1));
  return scale(graph, within(graph, before, -static_cast<double>(length), -0.5), kMasked);
}

/// [N, T, width] as [N, heads, T, width / heads].
ValueId heads_apart(GraphBuilder& graph, ValueId x, const GptSizes& sizes) {
  x = reshape(graph, x, {-1, sizes.length, sizes.heads, sizes.width / sizes.heads});
  return transpose(graph, x, {0, 2, 1, 3});
}

/// Each position attends to itself and to those before it.
ValueId attention(ModelBuilder& model, ValueId x, ValueId mask, const GptSizes& sizes) {
  const ScopeGuard scope(model, "attention");
  const std::vector<ValueId> parts =
      split(model, linear(model, "qkv", x, 3 * sizes.width), 2, {sizes.width, sizes.width, sizes.width});
  const ValueId query = heads_apart(model, parts[0], sizes);
  const ValueId key = heads_apart(model, parts[1], sizes);
  const ValueId value = heads_apart(model, parts[2], sizes);
  const int64_t of_head = sizes.width / sizes.heads;
  const ValueId scores =
      scale(model, matmul(model, query, key, false, true), 1 / std::sqrt(static_cast<double>(of_head)));
  const ValueId weights = softmax(model, add(model, scores, mask), -1);
  const ValueId mixed = transpose(model, matmul(model, weights, value), {0, 2, 1, 3});
  const ValueId joined = reshape(model, mixed, {-1, sizes.length, sizes.width});
  return dropout(model, "dropout", linear(model, "out", joined, sizes.width), sizes.dropout);
}

ValueId feed_forward(ModelBuilder& model, ValueId x, const GptSizes& sizes) {
  const ScopeGuard scope(model, "mlp");
  x = gelu(model, linear(model, "fc1", x, 4 * sizes.width));
  return dropout(model, "dropout", linear(model, "fc2", x, sizes.width), sizes.dropout);
}

/// Radford et al., "Language models are unsupervised multitask learners", 2019: layer norms come first.
ValueId gpt(ModelBuilder& model, ValueId tokens, const GptSizes& sizes, int64_t vocabulary) {
  ValueId x = embedding(model, tokens, table(model, "token", vocabulary, sizes.width));
  x = add(model, x, table(model, "position", sizes.length, sizes.width));
  x = dropout(model, "dropout", x, sizes.dropout);
  const ValueId mask = causal_mask(model, sizes.length);
  for (int64_t i = 0; i < sizes.layers; ++i) {
    const ScopeGuard scope(model, fmt::format("blocks.{}", i));
    x = add(model, x, attention(model, layer_norm(model, "norm1", x), mask, sizes));
    x = add(model, x, feed_forward(model, layer_norm(model, "norm2", x), sizes));
  }
  return linear(model, "head", layer_norm(model, "norm", x), vocabulary, false);
}

Model make_gpt_small(const ZooOptions& options, const Shape& sample, int64_t classes) {
  if (sample.rank() != 1)
    throw user_error("model 'gpt_small' takes samples [T] of token ids, not {}", sample.str());
  const GptSizes sizes{.layers = options.integer("layers", 4, 1, ZooOptions::kMostLayers),
                       .heads = options.integer("heads", 4, 1),
                       .width = options.integer("width", 128, 1, 1 << 16),
                       .length = sample[0],
                       .dropout = options.rate("dropout", 0)};
  if (sizes.width % sizes.heads != 0)
    throw user_error("model 'gpt_small': width is {}, which does not divide among {} heads", sizes.width,
                     sizes.heads);
  return {"", sample, DType::i32,
          [=](ModelBuilder& model, ValueId x) { return gpt(model, x, sizes, classes); }};
}

}  // namespace

ZooEntry gpt_small_entry() { return {"gpt_small", {"layers", "heads", "width", "dropout"}, make_gpt_small}; }

}  // namespace telar
