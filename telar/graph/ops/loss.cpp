#include "telar/graph/ops/loss.h"

#include "telar/core/error.h"
#include "telar/graph/autodiff.h"
#include "telar/graph/ops/arithmetic.h"

namespace telar {

namespace {

void check_classification(std::string_view op, const TensorType& logits, const TensorType& label) {
  if (logits.dtype != DType::f32 || logits.shape.rank() != 2 || label.dtype != DType::i32 ||
      label.shape != Shape{logits.shape.rank() > 0 ? logits.shape[0] : 0}) {
    throw user_error("{}: logits are {} and labels {}; they must be f32 [N, classes] and i32 [N]", op,
                     logits.str(), label.str());
  }
}

class CrossEntropyBackwardOp : public Op {
 public:
  std::string_view name() const override { return "cross_entropy_backward"; }
  // inputs: log-probabilities [N, C], label [N], dloss [1], or [N] of rows; output: dlogits
  std::vector<TensorType> infer(const std::vector<TensorType>& inputs, const Attributes&) const override {
    return {inputs[0]};
  }
};

class CrossEntropyOfRowsBackwardOp final : public CrossEntropyBackwardOp {
 public:
  std::string_view name() const override { return "cross_entropy_of_rows_backward"; }
};

const CrossEntropyBackwardOp kCrossEntropyBackward;
const CrossEntropyOfRowsBackwardOp kCrossEntropyOfRowsBackward;

class CrossEntropyOp : public Op {
 public:
  std::string_view name() const override { return "cross_entropy"; }
  int64_t label_count(const std::vector<TensorType>& inputs) const override { return inputs[0].shape[1]; }
  // outputs: loss [1], log-probabilities [N, C]
  std::vector<TensorType> infer(const std::vector<TensorType>& inputs, const Attributes&) const override {
    check_classification(name(), inputs[0], inputs[1]);
    return {{DType::f32, {1}}, inputs[0]};
  }
  void gradient(GradientContext& context) const override {
    context.set(0, context.builder().add1(backward(),
                                          {context.output(1), context.input(1), context.output_gradient(0)},
                                          context.attributes()));
  }

 protected:
  virtual const Op& backward() const { return kCrossEntropyBackward; }
};

class CrossEntropyOfRowsOp final : public CrossEntropyOp {
 public:
  std::string_view name() const override { return "cross_entropy_of_rows"; }
  // outputs: losses [N], log-probabilities [N, C]
  std::vector<TensorType> infer(const std::vector<TensorType>& inputs, const Attributes&) const override {
    check_classification(name(), inputs[0], inputs[1]);
    return {{DType::f32, inputs[1].shape}, inputs[0]};
  }

 protected:
  const Op& backward() const override { return kCrossEntropyOfRowsBackward; }
};

class MeanSquaredErrorBackwardOp final : public Op {
 public:
  std::string_view name() const override { return "mean_squared_error_backward"; }
  // inputs: prediction, target, dloss [1]; output: dprediction
  std::vector<TensorType> infer(const std::vector<TensorType>& inputs, const Attributes&) const override {
    return {inputs[0]};
  }
};

const MeanSquaredErrorBackwardOp kMeanSquaredErrorBackward;

class MeanSquaredErrorOp final : public Op {
 public:
  std::string_view name() const override { return "mean_squared_error"; }
  std::vector<TensorType> infer(const std::vector<TensorType>& inputs, const Attributes&) const override {
    if (inputs[0] != inputs[1] || inputs[0].dtype != DType::f32) {
      throw user_error("mean_squared_error: prediction is {} and target {}; both must be the same f32 shape",
                       inputs[0].str(), inputs[1].str());
    }
    return {{DType::f32, {1}}};
  }
  void gradient(GradientContext& context) const override {
    GraphBuilder& builder = context.builder();
    const ValueId dprediction = builder.add1(
        kMeanSquaredErrorBackward, {context.input(0), context.input(1), context.output_gradient(0)});
    if (context.needs(0)) context.set(0, dprediction);
    if (context.needs(1)) context.set(1, scale(builder, dprediction, -1));
  }
};

class TopKCorrectOp final : public Op {
 public:
  std::string_view name() const override { return "top_k_correct"; }
  int64_t label_count(const std::vector<TensorType>& inputs) const override { return inputs[0].shape[1]; }
  std::vector<TensorType> infer(const std::vector<TensorType>& inputs,
                                const Attributes& attributes) const override {
    check_classification(name(), inputs[0], inputs[1]);
    const int64_t k = attributes.integer("k");
    if (k < 1 || k > inputs[0].shape[1]) {
      throw user_error("top-{} accuracy of {} classes; k must be 1 to {}", k, inputs[0].shape[1],
                       inputs[0].shape[1]);
    }
    return {{DType::f32, {1}}};
  }
};

const CrossEntropyOp kCrossEntropy;
const CrossEntropyOfRowsOp kCrossEntropyOfRows;
const MeanSquaredErrorOp kMeanSquaredError;
const TopKCorrectOp kTopKCorrect;

}  // namespace

ValueId cross_entropy(GraphBuilder& builder, ValueId logits, ValueId label, double label_smoothing) {
  return builder.add(kCrossEntropy, {logits, label}, {{"label_smoothing", label_smoothing}})[0];
}

ValueId cross_entropy_of_rows(GraphBuilder& builder, ValueId logits, ValueId label, double label_smoothing) {
  return builder.add(kCrossEntropyOfRows, {logits, label}, {{"label_smoothing", label_smoothing}})[0];
}

ValueId mean_squared_error(GraphBuilder& builder, ValueId prediction, ValueId target) {
  return builder.add1(kMeanSquaredError, {prediction, target});
}

ValueId top_k_correct(GraphBuilder& builder, ValueId logits, ValueId label, int64_t k) {
  return builder.add1(kTopKCorrect, {logits, label}, {{"k", k}});
}

}  // namespace telar
