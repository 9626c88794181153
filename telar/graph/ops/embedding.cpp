#include "telar/graph/ops/embedding.h"

#include "telar/core/error.h"
#include "telar/graph/autodiff.h"
#include "telar/graph/ops/axis.h"

namespace telar {

namespace {

class EmbeddingBackwardOp : public Op {
 public:
  std::string_view name() const override { return "embedding_backward"; }
  bool bf16() const override { return true; }
  // inputs: tokens, dy; attribute rows = V; output: dtable f32
  std::vector<TensorType> infer(const std::vector<TensorType>& inputs,
                                const Attributes& attributes) const override {
    const Shape& dy = inputs[1].shape;
    return {{DType::f32, {attributes.integer("rows"), dy[dy.rank() - 1]}}};
  }
};

class EmbeddingOfPartBackwardOp final : public EmbeddingBackwardOp {
 public:
  std::string_view name() const override { return "embedding_of_part_backward"; }
};

const EmbeddingBackwardOp kEmbeddingBackward;
const EmbeddingOfPartBackwardOp kEmbeddingOfPartBackward;

class EmbeddingOp : public Op {
 public:
  std::string_view name() const override { return "embedding"; }
  bool bf16() const override { return true; }
  int64_t index_count(const std::vector<TensorType>& inputs) const override { return inputs[1].shape[0]; }
  std::vector<TensorType> infer(const std::vector<TensorType>& inputs, const Attributes&) const override {
    const TensorType& tokens = inputs[0];
    const TensorType& table = inputs[1];
    if (tokens.dtype != DType::i32 || tokens.shape.rank() < 1 || tokens.shape.rank() > 2) {
      throw user_error("embedding: tokens are {}; they must be i32 [N, T] or [N]", tokens.str());
    }
    check_floating(name(), table);
    if (table.shape.rank() != 2) {
      throw user_error("embedding: the table is {}; it must be [vocabulary, features]", table.shape.str());
    }
    std::vector<int64_t> y = tokens.shape.dims();
    y.push_back(table.shape[1]);
    return {{table.dtype, Shape(y)}};
  }
  void gradient(GradientContext& context) const override {
    if (!context.needs(1)) return;
    Attributes attributes = context.attributes();
    attributes.set("rows", context.type(context.input(1)).shape[0]);
    context.set(
        1, context.builder().add1(backward(), {context.input(0), context.output_gradient(0)}, attributes));
  }

 protected:
  virtual const Op& backward() const { return kEmbeddingBackward; }
};

class EmbeddingOfPartOp final : public EmbeddingOp {
 public:
  std::string_view name() const override { return "embedding_of_part"; }
  /// Tokens of the whole table, of which this does not have all rows.
  int64_t index_count(const std::vector<TensorType>& /*inputs*/) const override { return 0; }

 protected:
  const Op& backward() const override { return kEmbeddingOfPartBackward; }
};

const EmbeddingOp kEmbedding;
const EmbeddingOfPartOp kEmbeddingOfPart;

}  // namespace

ValueId embedding(GraphBuilder& builder, ValueId tokens, ValueId table) {
  return builder.add1(kEmbedding, {tokens, table});
}

ValueId embedding_of_part(GraphBuilder& builder, ValueId tokens, ValueId part, int64_t first,
                          int64_t vocabulary) {
  return builder.add1(kEmbeddingOfPart, {tokens, part}, {{"first", first}, {"vocabulary", vocabulary}});
}

}  // namespace telar
