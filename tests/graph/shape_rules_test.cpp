/// Each operation's error message for inputs that do not fit: its name, the shapes, and what would be valid.
#include <gtest/gtest.h>

#include <functional>

#include "telar/core/error.h"
#include "telar/graph/ops/accumulate.h"
#include "telar/graph/ops/activation.h"
#include "telar/graph/ops/arithmetic.h"
#include "telar/graph/ops/batch_norm.h"
#include "telar/graph/ops/concat.h"
#include "telar/graph/ops/conv2d.h"
#include "telar/graph/ops/convert.h"
#include "telar/graph/ops/dropout.h"
#include "telar/graph/ops/embedding.h"
#include "telar/graph/ops/layer_norm.h"
#include "telar/graph/ops/linear.h"
#include "telar/graph/ops/loss.h"
#include "telar/graph/ops/matmul.h"
#include "telar/graph/ops/pooling.h"
#include "telar/graph/ops/recurrent.h"
#include "telar/graph/ops/reduce.h"
#include "telar/graph/ops/reshape.h"
#include "telar/graph/ops/softmax.h"
#include "telar/graph/ops/transpose.h"

namespace telar {
namespace {

/// A builder with functions that create an input of a given type and shape.
class Inputs {
 public:
  GraphBuilder& graph() { return graph_; }
  ValueId f32(const Shape& shape) { return make({DType::f32, shape}); }
  ValueId bf16(const Shape& shape) { return make({DType::bf16, shape}); }
  ValueId i32(const Shape& shape) { return make({DType::i32, shape}); }
  Shape shape(ValueId value) const { return graph_.type(value).shape; }

 private:
  ValueId make(const TensorType& type) { return graph_.input("i" + std::to_string(count_++), type, false); }
  GraphBuilder graph_;
  int count_ = 0;
};

struct Misuse {
  const char* what;
  std::function<void(Inputs&)> use;
  std::vector<const char*> says;
};

const std::vector<Misuse>& misuses() {
  static const std::vector<Misuse> kMisuses = {
      {"LinearOfOtherWidth",
       [](Inputs& in) {
         linear(in.graph(), in.f32({4, 3}), in.f32({5, 2}), kNoValue);
       },
       {"linear", "[4, 3]", "[5, 2]", "[N, 2]"}},
      {"LinearOfImages",
       [](Inputs& in) {
         linear(in.graph(), in.f32({4, 3, 2, 2}), in.f32({5, 3}), kNoValue);
       },
       {"linear", "[4, 3, 2, 2]"}},
      {"LinearOfTwoTypes",
       [](Inputs& in) {
         linear(in.graph(), in.bf16({4, 3}), in.f32({5, 3}), kNoValue);
       },
       {"bf16 [4, 3]", "f32 [5, 3]"}},
      {"LinearWithAWrongBias",
       [](Inputs& in) {
         linear(in.graph(), in.f32({4, 3}), in.f32({5, 3}), in.f32({3}));
       },
       {"bias [3]", "[5]"}},
      {"Conv2dOfVectors",
       [](Inputs& in) {
         conv2d(in.graph(), in.f32({4, 3}), in.f32({5, 3, 3, 3}), kNoValue, {});
       },
       {"conv2d", "[4, 3]", "[N, C, H, W]"}},
      {"Conv2dOfOtherChannels",
       [](Inputs& in) {
         conv2d(in.graph(), in.f32({4, 3, 8, 8}), in.f32({5, 2, 3, 3}), kNoValue, {});
       },
       {"[4, 3, 8, 8]", "[5, 2, 3, 3]", "2 channels"}},
      {"Conv2dOfGroupsThatDoNotDivide",
       [](Inputs& in) {
         conv2d(in.graph(), in.f32({4, 4, 8, 8}), in.f32({6, 1, 3, 3}), kNoValue, {.groups = 3});
       },
       {"3 groups"}},
      {"Conv2dOfSmallImages",
       [](Inputs& in) {
         conv2d(in.graph(), in.f32({4, 3, 4, 4}), in.f32({5, 3, 3, 3}), kNoValue, {.dilation_h = 2});
       },
       {"an extent of 5", "[4, 3, 4, 4]"}},
      {"Conv2dWithAWrongBias",
       [](Inputs& in) {
         conv2d(in.graph(), in.f32({4, 3, 8, 8}), in.f32({5, 3, 3, 3}), in.f32({3}), {});
       },
       {"bias [3]", "[5]"}},
      {"PoolOfSmallImages",
       [](Inputs& in) {
         max_pool(in.graph(), in.f32({4, 3, 2, 2}), {.kernel_h = 3});
       },
       {"max_pool", "kernel 3", "[4, 3, 2, 2]"}},
      {"PoolOfMuchPadding",
       [](Inputs& in) {
         average_pool(in.graph(), in.f32({4, 3, 9, 9}), {.padding_h = 2});
       },
       {"average_pool", "padding 2", "half"}},
      {"PoolOfVectors",
       [](Inputs& in) {
         max_pool(in.graph(), in.f32({4, 3}), {});
       },
       {"[4, 3]", "[N, C, H, W]"}},
      {"GlobalPoolOfVectors",
       [](Inputs& in) {
         global_average_pool(in.graph(), in.f32({4, 3}));
       },
       {"[4, 3]"}},
      {"BatchNormOfSequences",
       [](Inputs& in) {
         batch_norm(in.graph(), in.f32({4, 3, 5}), in.f32({3}), in.f32({3}), 1e-5);
       },
       {"batch_norm", "[4, 3, 5]", "[N, C]"}},
      {"BatchNormOfOtherChannels",
       [](Inputs& in) {
         batch_norm(in.graph(), in.f32({4, 3}), in.f32({3}), in.f32({4}), 1e-5);
       },
       {"f32 [3]", "f32 [4]"}},
      {"LayerNormOfOtherFeatures",
       [](Inputs& in) {
         layer_norm(in.graph(), in.f32({4, 3}), in.f32({4}), in.f32({3}), 1e-5);
       },
       {"layer_norm", "f32 [4]", "f32 [3]"}},
      {"AddOfOtherShapes",
       [](Inputs& in) {
         add(in.graph(), in.f32({4, 3}), in.f32({4, 2}));
       },
       {"add", "[4, 3]", "[4, 2]", "equal or 1"}},
      {"AddOfTwoTypes",
       [](Inputs& in) { add(in.graph(), in.f32({4}), in.bf16({4})); },
       {"f32 [4]", "bf16 [4]"}},
      {"MulOfTokens", [](Inputs& in) { mul(in.graph(), in.i32({4}), in.i32({4})); }, {"mul", "i32 [4]"}},
      {"MatmulOfOtherInnerExtents",
       [](Inputs& in) {
         matmul(in.graph(), in.f32({2, 4, 3}), in.f32({2, 4, 5}));
       },
       {"matmul", "[2, 4, 3]", "3 columns", "4 rows"}},
      {"MatmulOfTwoRanks",
       [](Inputs& in) {
         matmul(in.graph(), in.f32({4, 3}), in.f32({1, 3, 5}));
       },
       {"[4, 3]", "[1, 3, 5]", "rank"}},
      {"MatmulOfTwoTypes",
       [](Inputs& in) {
         matmul(in.graph(), in.f32({4, 3}), in.bf16({3, 5}));
       },
       {"one type"}},
      {"ConcatOfNothing", [](Inputs& in) { concat(in.graph(), {}, 0); }, {"concat", "at least one"}},
      {"ConcatOfOtherExtents",
       [](Inputs& in) {
         concat(in.graph(), {in.f32({4, 3}), in.f32({5, 3})}, 1);
       },
       {"concat", "[4, 3]", "[5, 3]"}},
      {"ConcatAlongNoAxis",
       [](Inputs& in) {
         concat(in.graph(), {in.f32({4, 3})}, 2);
       },
       {"no axis 2", "0 to 1"}},
      {"SplitThatDoesNotAddUp",
       [](Inputs& in) {
         split(in.graph(), in.f32({4, 6}), 1, {2, 3});
       },
       {"split", "[2, 3]", "add up to 6"}},
      {"ReshapeOfOtherSize",
       [](Inputs& in) {
         reshape(in.graph(), in.f32({4, 6}), {5, 5});
       },
       {"reshape", "[4, 6]", "24", "[5, 5]"}},
      {"ReshapeWithTwoOpenExtents",
       [](Inputs& in) {
         reshape(in.graph(), in.f32({4, 6}), {-1, -1});
       },
       {"reshape", "[4, 6]"}},
      {"TransposeByNoPermutation",
       [](Inputs& in) {
         transpose(in.graph(), in.f32({4, 6}), {0, 0});
       },
       {"transpose", "[0, 0]", "[4, 6]"}},
      {"SoftmaxAlongNoAxis",
       [](Inputs& in) {
         softmax(in.graph(), in.f32({4, 6}), -3);
       },
       {"softmax", "-3"}},
      {"ReduceTwiceOverAnAxis",
       [](Inputs& in) {
         reduce_sum(in.graph(), in.f32({4, 6}), {1, -1});
       },
       {"reduce_sum", "twice"}},
      {"EmbeddingOfNumbers",
       [](Inputs& in) {
         embedding(in.graph(), in.f32({4, 6}), in.f32({10, 3}));
       },
       {"embedding", "f32 [4, 6]", "i32"}},
      {"EmbeddingInNoTable",
       [](Inputs& in) {
         embedding(in.graph(), in.i32({4, 6}), in.f32({10}));
       },
       {"[10]", "[vocabulary, features]"}},
      {"DropoutOfEverything",
       [](Inputs& in) {
         dropout(in.graph(), in.f32({4, 6}), 1, in.i32({4}), in.i32({4}));
       },
       {"dropout", "below 1"}},
      {"DropoutWithFewerSampleIds",
       [](Inputs& in) {
         dropout(in.graph(), in.f32({4, 6}), 0.5, in.i32({3}), in.i32({4}));
       },
       {"i32 [3]", "4 samples"}},
      {"LstmOfVectors",
       [](Inputs& in) {
         lstm(in.graph(), in.f32({4, 6}), {in.f32({8, 6}), in.f32({8, 2})}, kNoValue);
       },
       {"lstm", "[4, 6]", "[N, T, features]"}},
      {"LstmThatBeginsWithAnotherState",
       [](Inputs& in) {
         lstm(in.graph(), in.f32({4, 3, 6}), {in.f32({8, 6}), in.f32({8, 2})}, kNoValue,
              {.cell = in.f32({4, 3})});
       },
       {"lstm", "f32 [4, 3]", "f32 [4, 2]", "initial state"}},
      {"GruWithFourGates",
       [](Inputs& in) {
         gru(in.graph(), in.f32({4, 5, 6}), {in.f32({8, 6}), in.f32({8, 2})}, kNoValue);
       },
       {"gru", "[8, 2]", "3·hidden"}},
      {"LstmOfOtherFeatures",
       [](Inputs& in) {
         lstm(in.graph(), in.f32({4, 5, 7}), {in.f32({8, 6}), in.f32({8, 2})}, kNoValue);
       },
       {"weight_ih", "[8, 7]"}},
      {"LstmWithFewerLengths",
       [](Inputs& in) {
         lstm(in.graph(), in.f32({4, 5, 6}), {in.f32({8, 6}), in.f32({8, 2})}, in.i32({3}));
       },
       {"lengths", "i32 [3]"}},
      {"CrossEntropyOfOtherCounts",
       [](Inputs& in) {
         cross_entropy(in.graph(), in.f32({4, 6}), in.i32({3}), 0);
       },
       {"cross_entropy", "[4, 6]", "[3]"}},
      {"CrossEntropyOfRealLabels",
       [](Inputs& in) {
         cross_entropy(in.graph(), in.f32({4, 6}), in.f32({4}), 0);
       },
       {"f32 [4]", "i32 [N]"}},
      {"SquaredErrorOfOtherShapes",
       [](Inputs& in) {
         mean_squared_error(in.graph(), in.f32({4, 6}), in.f32({4}));
       },
       {"mean_squared_error", "[4, 6]", "[4]"}},
      {"TopKOfTooMany",
       [](Inputs& in) {
         top_k_correct(in.graph(), in.f32({4, 6}), in.i32({4}), 7);
       },
       {"top-7", "6 classes"}},
      {"AccumulateOfOtherShape",
       [](Inputs& in) {
         accumulate(in.graph(), in.graph().gradient("b", {DType::f32, {3}}), in.f32({4}));
       },
       {"accumulate", "[3]", "[4]"}},
      {"AccumulateInBf16",
       [](Inputs& in) {
         accumulate(in.graph(), in.graph().gradient("b", {DType::bf16, {3}}), in.bf16({3}));
       },
       {"f32"}},
  };
  return kMisuses;
}

class ShapeRule : public testing::TestWithParam<Misuse> {};

TEST_P(ShapeRule, ReportsInputsThatDoNotFit) {
  Inputs inputs;
  try {
    GetParam().use(inputs);
    FAIL() << "it was accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), Error::Kind::user);
    for (const char* part : GetParam().says) {
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos)
          << error.what() << "\nlacks " << part;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Op, ShapeRule, testing::ValuesIn(misuses()),
                         [](const auto& instance) { return std::string(instance.param.what); });

TEST(ShapeRules, ConvolutionAndPoolingRoundDown) {
  Inputs in;
  const ValueId x = in.f32({2, 3, 11, 12});
  const ValueId w = in.f32({4, 3, 3, 2});
  const ValueId y = conv2d(in.graph(), x, w, kNoValue,
                           {.stride_h = 3, .stride_w = 2, .padding_h = 1, .dilation_h = 2, .dilation_w = 3});
  EXPECT_EQ(in.shape(y), (Shape{2, 4, 3, 5}));  // (11 + 2 − 4 − 1) / 3 + 1; (12 − 3 − 1) / 2 + 1
  EXPECT_EQ(in.shape(max_pool(in.graph(), x, {3, 3, 2, 2, 1, 1})), (Shape{2, 3, 6, 6}));
  EXPECT_EQ(in.shape(global_average_pool(in.graph(), x)), (Shape{2, 3, 1, 1}));
}

TEST(ShapeRules, AddAndMulBroadcastAsNumpyDoes) {
  Inputs in;
  EXPECT_EQ(in.shape(add(in.graph(), in.f32({4, 1, 3}), in.f32({5, 1}))), (Shape{4, 5, 3}));
  EXPECT_EQ(in.shape(mul(in.graph(), in.f32({1}), in.f32({2, 7}))), (Shape{2, 7}));
}

TEST(ShapeRules, ReshapeKeepsAndInfers) {
  Inputs in;
  EXPECT_EQ(in.shape(reshape(in.graph(), in.f32({4, 6, 5}), {0, -1})), (Shape{4, 30}));
  EXPECT_EQ(in.shape(reshape(in.graph(), in.f32({4, 6, 5}), {-1, 3, 0})), (Shape{8, 3, 5}));
  const ValueId flat = in.f32({4, 6});
  EXPECT_EQ(flatten(in.graph(), flat), flat);
}

TEST(ShapeRules, ReductionsDropOrKeepTheirAxes) {
  Inputs in;
  const ValueId x = in.f32({2, 3, 4});
  EXPECT_EQ(in.shape(reduce_sum(in.graph(), x, {0, -1})), (Shape{3}));
  EXPECT_EQ(in.shape(reduce_mean(in.graph(), x, {1}, true)), (Shape{2, 1, 4}));
  EXPECT_EQ(in.shape(reduce_max(in.graph(), x, {})), (Shape{1}));
}

TEST(ShapeRules, ConcatAndSplitAreInverse) {
  Inputs in;
  const ValueId joined = concat(in.graph(), {in.f32({4, 2, 3}), in.f32({4, 5, 3})}, 1);
  EXPECT_EQ(in.shape(joined), (Shape{4, 7, 3}));
  const auto parts = split(in.graph(), joined, 1, {2, 5});
  EXPECT_EQ(in.shape(parts[0]), (Shape{4, 2, 3}));
  EXPECT_EQ(in.shape(parts[1]), (Shape{4, 5, 3}));
}

TEST(ShapeRules, MatmulTransposesEitherSide) {
  Inputs in;
  EXPECT_EQ(in.shape(matmul(in.graph(), in.f32({2, 3, 4}), in.f32({2, 3, 5}), true)), (Shape{2, 4, 5}));
  EXPECT_EQ(in.shape(matmul(in.graph(), in.f32({3, 4}), in.f32({5, 4}), false, true)), (Shape{3, 5}));
}

TEST(ShapeRules, OtherOperationsHaveTheirDocumentedTypes) {
  Inputs in;
  EXPECT_EQ(in.shape(transpose(in.graph(), in.f32({2, 3, 4}), {2, 0, 1})), (Shape{4, 2, 3}));
  EXPECT_EQ(in.shape(embedding(in.graph(), in.i32({2, 7}), in.f32({10, 3}))), (Shape{2, 7, 3}));
  EXPECT_EQ(in.shape(softmax(in.graph(), in.f32({2, 7}), -1)), (Shape{2, 7}));
  EXPECT_EQ(in.graph().type(convert(in.graph(), in.f32({2}), DType::bf16)), (TensorType{DType::bf16, {2}}));
  EXPECT_EQ(in.graph().type(gelu(in.graph(), in.bf16({2}))), (TensorType{DType::bf16, {2}}));
  const RecurrentResult r = lstm(in.graph(), in.f32({4, 5, 6}), {in.f32({8, 6}), in.f32({8, 2})}, kNoValue);
  EXPECT_EQ(in.shape(r.y), (Shape{4, 5, 2}));
  EXPECT_EQ(in.shape(r.cell), (Shape{4, 2}));
}

}  // namespace
}  // namespace telar
