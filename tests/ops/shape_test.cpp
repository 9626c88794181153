#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "ops/run_graph.h"
#include "support/sentences.h"
#include "telar/core/error.h"
#include "telar/graph/mixed_precision.h"
#include "telar/graph/ops/activation.h"
#include "telar/graph/ops/concat.h"
#include "telar/graph/ops/conv2d.h"
#include "telar/graph/ops/embedding.h"
#include "telar/graph/ops/layer_norm.h"
#include "telar/graph/ops/matmul.h"
#include "telar/graph/ops/recurrent.h"
#include "telar/graph/ops/reduce.h"
#include "telar/graph/ops/reshape.h"
#include "telar/graph/ops/softmax.h"
#include "telar/graph/ops/transpose.h"

namespace telar::test {

namespace {

ValueId tensor(GraphBuilder& builder, const Shape& shape, DType dtype = DType::f32) {
  static int count = 0;
  return builder.input("t" + std::to_string(count++), {dtype, shape}, true);
}

/// The message with which building fails; empty if it succeeds.
std::string mistake(const std::function<void(GraphBuilder&)>& build) {
  GraphBuilder builder;
  const ScopeGuard scope(builder, "block1");
  return sentence_of([&] { build(builder); });
}

void expect_mentions(const std::string& sentence, const std::vector<std::string>& words) {
  for (const auto& word : words) EXPECT_NE(sentence.find(word), std::string::npos) << sentence;
}

}  // namespace

TEST(ShapeMistake, NamesLayerAndShapes) {
  const auto sentence = mistake([](GraphBuilder& b) {
    matmul(b, tensor(b, {2, 3, 4}), tensor(b, {2, 5, 6}));
  });
  expect_mentions(sentence, {"block1", "[2, 3, 4]", "[2, 5, 6]", "4 columns", "5 rows"});
}

TEST(ShapeMistake, IsDetectedInEveryOperation) {
  const std::vector<std::function<void(GraphBuilder&)>> mistakes = {
      [](GraphBuilder& b) {
        matmul(b, tensor(b, {2, 3}), tensor(b, {1, 3, 4}));
      },
      [](GraphBuilder& b) {
        matmul(b, tensor(b, {2, 3, 4}), tensor(b, {3, 4, 5}));
      },
      [](GraphBuilder& b) {
        matmul(b, tensor(b, {2, 3}), tensor(b, {3, 2}, DType::bf16));
      },
      [](GraphBuilder& b) {
        softmax(b, tensor(b, {2, 3}), 2);
      },
      [](GraphBuilder& b) {
        softmax(b, tensor(b, {2, 3}, DType::i32), 1);
      },
      [](GraphBuilder& b) {
        layer_norm(b, tensor(b, {2, 3}), tensor(b, {2}), tensor(b, {3}), 1e-5);
      },
      [](GraphBuilder& b) { concat(b, {}, 0); },
      [](GraphBuilder& b) {
        concat(b, {tensor(b, {2, 3}), tensor(b, {3, 3})}, 1);
      },
      [](GraphBuilder& b) {
        concat(b, {tensor(b, {2, 3}), tensor(b, {2, 3, 1})}, 1);
      },
      [](GraphBuilder& b) {
        split(b, tensor(b, {2, 6}), 1, {2, 3});
      },
      [](GraphBuilder& b) {
        split(b, tensor(b, {2, 6}), 1, {7, -1});
      },
      [](GraphBuilder& b) {
        transpose(b, tensor(b, {2, 3}), {0, 0});
      },
      [](GraphBuilder& b) {
        transpose(b, tensor(b, {2, 3}), {1});
      },
      [](GraphBuilder& b) {
        transpose(b, tensor(b, {2, 3}), {1, 2});
      },
      [](GraphBuilder& b) {
        reduce_sum(b, tensor(b, {2, 3}), {1, -1});
      },
      [](GraphBuilder& b) {
        reduce_max(b, tensor(b, {2, 3}), {-3});
      },
      [](GraphBuilder& b) {
        embedding(b, tensor(b, {2, 3}), tensor(b, {10, 4}));
      },
      [](GraphBuilder& b) {
        embedding(b, tensor(b, {2, 3}, DType::i32), tensor(b, {10}));
      },
      [](GraphBuilder& b) {
        lstm(b, tensor(b, {2, 3}), {tensor(b, {8, 3}), tensor(b, {8, 2})}, kNoValue);
      },
      [](GraphBuilder& b) {
        lstm(b, tensor(b, {2, 5, 3}), {tensor(b, {8, 4}), tensor(b, {8, 2})}, kNoValue);
      },
      [](GraphBuilder& b) {
        gru(b, tensor(b, {2, 5, 3}), {tensor(b, {8, 3}), tensor(b, {8, 2})}, kNoValue);
      },
      [](GraphBuilder& b) {
        gru(b, tensor(b, {2, 5, 3}), {tensor(b, {6, 3}), tensor(b, {6, 2}), tensor(b, {5})}, kNoValue);
      },
      [](GraphBuilder& b) {
        gru(b, tensor(b, {2, 5, 3}), {tensor(b, {6, 3}), tensor(b, {6, 2})}, tensor(b, {3}, DType::i32));
      },
  };
  for (size_t i = 0; i < mistakes.size(); ++i) EXPECT_NE(mistake(mistakes[i]), "") << "mistake " << i;
}

TEST(ShapeRule, HoldsForAnyBatch) {
  GraphBuilder builder;
  const ValueId x = builder.input("x", {DType::f32, {4, 6, 8}}, true);
  const ValueId w = builder.parameter("w", {DType::f32, {12, 8}});
  const ValueId r = builder.parameter("r", {DType::f32, {12, 4}});
  const RecurrentResult recurrent = gru(builder, x, {w, r}, kNoValue);
  const ValueId joined = concat(builder, {recurrent.y, softmax(builder, x, -1)}, 2);
  const auto parts = split(builder, joined, 1, {1, 5});
  builder.output("scores", matmul(builder, parts[1], parts[0], false, true));
  builder.output("mean", reduce_mean(builder, transpose(builder, joined, {0, 2, 1}), {1}));
  const Graph larger = builder.build().with_batch(9);
  EXPECT_EQ(larger.value(larger.output("scores")).type.shape, (Shape{9, 5, 1}));
  EXPECT_EQ(larger.value(larger.output("mean")).type.shape, (Shape{9, 6}));
}

TEST(Embedding, NamesATokenOutsideTheTable) {
  if (!tested_device()->in_host_memory())
    GTEST_SKIP() << "a GPU cannot throw while it computes: there the row is NaN (tests/cuda/loops_test.cpp)";
  GraphBuilder builder;
  const ScopeGuard scope(builder, "words");
  const ValueId tokens = builder.input("tokens", {DType::i32, {1, 3}}, true);
  builder.output("y", embedding(builder, tokens, builder.parameter("table", {DType::f32, {5, 2}})));
  GraphRun run(builder.build());
  run.set_parameter("table", std::vector<float>(10, 1.0F));
  for (const int32_t wrong : {5, -1}) {
    const std::vector<int32_t> given{0, 4, wrong};
    run.set_input("tokens", std::span<const int32_t>(given));
    try {
      run.run();
      FAIL() << "token " << wrong << " was looked up in a table of 5 rows";
    } catch (const Error& error) {
      expect_mentions(error.what(), {"words", std::to_string(wrong), "position 2", "5 rows"});
    }
  }
}

// Convolutions on a GPU in bf16 produce channels last. Both reshapes read the same copy in plain layout.
TEST(Reshape, OfAConvolutionDoesNotSeeWhatOverwritesAnother) {
  const auto negatives = [](bool bf16) {
    GraphBuilder builder;
    const ValueId x = builder.input("x", {DType::f32, {2, 8, 6, 6}}, true);
    const ValueId w = builder.parameter("w", {DType::f32, {8, 8, 3, 3}});
    const ValueId y = conv2d(builder, x, w, kNoValue, {.padding_h = 1, .padding_w = 1});
    builder.output("rectified", relu(builder, reshape(builder, y, {0, 288})));
    builder.output("y", reshape(builder, y, {0, 8, 36}));
    const Graph graph = builder.build();
    GraphRun run(bf16 ? mixed_precision(graph) : graph);
    run.set_input("x", std::span<const float>(numbers(2 * 288, 1)));
    run.set_parameter("w", numbers(8 * 72, 2));
    run.run();
    const std::vector<float> values = run.output("y");
    return std::count_if(values.begin(), values.end(), [](float value) { return value < 0; });
  };
  EXPECT_GT(negatives(false), 200);
  if (bf16_missing_here().empty()) {
    EXPECT_GT(negatives(true), 200);
  }
}

}  // namespace telar::test
