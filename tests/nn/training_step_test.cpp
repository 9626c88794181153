#include "telar/nn/training_step.h"
#include "telar/nn/metrics.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "telar/core/error.h"
#include "telar/nn/layers.h"
#include "telar/nn/zoo.h"

namespace telar {
namespace {

/// A linear layer with 2 inputs and 3 classes.
Model tiny() {
  return {"tiny", {2}, DType::f32, [](ModelBuilder& model, ValueId x) { return linear(model, "fc", x, 3); }};
}

Model with_statistics() {
  return {"with_statistics", {4}, DType::f32, [](ModelBuilder& model, ValueId x) {
            x = relu(model, batch_norm(model, "bn", linear(model, "fc1", x, 5), {.momentum = 0.25}));
            return linear(model, "fc2", x, 3);
          }};
}

std::vector<const Node*> nodes_named(const Graph& graph, const std::string& name) {
  std::vector<const Node*> found;
  for (const Node& node : graph.nodes()) {
    if (node.op->name() == name) found.push_back(&node);
  }
  return found;
}

/// The names of the values of this kind that the graph's effects write, in order.
std::vector<std::string> written(const Graph& graph, ValueKind kind) {
  std::vector<std::string> names;
  for (const Node& node : graph.nodes()) {
    if (!node.op->has_effect()) continue;
    const Value& value = graph.value(node.inputs[0]);
    if (value.kind == kind) names.push_back(value.name);
  }
  return names;
}

TEST(TrainingStep, PrintsTheStepOfALinearLayer) {
  const TrainingStep step =
      make_training_step(tiny(), {.batch = 4, .optimizer = SgdOptions{.momentum = 0.9}});
  EXPECT_EQ(step.gradient.str(), R"(input %0 x: f32 [4, 2]
parameter %1 fc.weight: f32 [3, 2]
parameter %2 fc.bias: f32 [3]
input %4 label: i32 [4]
buffer %7 metric/loss: f32 [1]
buffer %9 metric/accuracy: f32 [1]
buffer %14 gradient/fc.weight: f32 [3, 2]
buffer %15 gradient/fc.bias: f32 [3]
%3 = linear(%0, %1, %2) : f32 [4, 3]  # fc
%5, %6 = cross_entropy(%3, %4) {label_smoothing=0} : f32 [1], f32 [4, 3]  # loss
accumulate(%7, %5)  # loss
%8 = top_k_correct(%3, %4) {k=1} : f32 [1]  # accuracy
accumulate(%9, %8)  # accuracy
%10 = constant() {shape=[1], value=1} : f32 [1]  # loss
%11 = cross_entropy_backward(%6, %4, %10) {label_smoothing=0} : f32 [4, 3]  # loss
%12, %13 = linear_backward_weights(%0, %11) {bias=true} : f32 [3, 2], f32 [3]  # fc
accumulate(%14, %12)  # fc
accumulate(%15, %13)  # fc
)");
  EXPECT_EQ(step.metrics, (std::vector<std::string>{"loss", "accuracy"}));
}

/// Of a model of the zoo.
Shape sample_of(const std::string& name) {
  if (name == "gpt_small" || name == "text_classifier") return Shape{6};
  return name == "lstm" ? Shape{6, 4} : Shape{3, 64, 64};
}

Model zoo_model(const std::string& name, Attributes options = {}) {
  if (name == "text_classifier") options = {{"vocabulary", int64_t{20}}};
  return make_model(name, options, sample_of(name), 5);
}

TEST(TrainingStep, UpdatesFollowTheOrderOfTheGradients) {
  for (const std::string& name : model_names()) {
    const TrainingStep step = make_training_step(zoo_model(name), {.batch = 2});
    const auto ready = written(step.gradient, ValueKind::gradient);
    EXPECT_EQ(written(step.update, ValueKind::parameter), ready) << name;
    EXPECT_EQ(ready.size(), step.parameters.size()) << name;
    EXPECT_EQ(std::set<std::string>(ready.begin(), ready.end()).size(), ready.size()) << name;
  }
}

TEST(TrainingStep, RunningStatisticsAreSummedInTrainingAndReadInEvaluation) {
  const TrainingStep step = make_training_step(with_statistics(), {.batch = 8});
  EXPECT_EQ(written(step.gradient, ValueKind::gradient),
            (std::vector<std::string>{"bn.running_mean", "bn.running_var", "fc2.weight", "fc2.bias",
                                      "bn.weight", "bn.bias", "fc1.weight", "fc1.bias"}));
  EXPECT_FALSE(step.gradient.has(ValueKind::parameter, "bn.running_mean"));
  EXPECT_TRUE(step.evaluation.has(ValueKind::parameter, "bn.running_mean"));
  EXPECT_TRUE(nodes_named(step.evaluation, "batch_norm").empty());
  EXPECT_EQ(nodes_named(step.evaluation, "batch_norm_inference").size(), 1U);

  const auto averages = nodes_named(step.update, "running_average_update");
  ASSERT_EQ(averages.size(), 2U);
  EXPECT_EQ(averages[0]->attributes.real("momentum"), 0.25);
  EXPECT_EQ(nodes_named(step.update, "sgd_update").size(), 6U);
}

TEST(TrainingStep, IsTheSameBuiltForABatchOrAdaptedToIt) {
  for (const std::string& name : model_names()) {
    const bool sequence = sample_of(name).rank() < 3;
    const Model model =
        zoo_model(name, sequence ? Attributes{{"layers", int64_t{2}}, {"dropout", 0.5}} : Attributes{});
    for (const Precision precision : {Precision::f32, Precision::bf16}) {
      const TrainingStep of_8 = make_training_step(model, {.batch = 8, .precision = precision});
      const TrainingStep of_3 = make_training_step(model, {.batch = 3, .precision = precision});
      EXPECT_NE(of_8.gradient.str(), of_3.gradient.str());
      EXPECT_EQ(of_8.gradient.with_batch(3).str(), of_3.gradient.str()) << name;
      EXPECT_EQ(of_8.evaluation.with_batch(3).str(), of_3.evaluation.str()) << name;
      EXPECT_EQ(of_8.prediction.with_batch(3).str(), of_3.prediction.str()) << name;
      EXPECT_EQ(of_8.update.str(), of_3.update.str()) << name;
    }
  }
}

TEST(TrainingStep, ClippingTakesTheNormOfTrainedParametersOnly) {
  const TrainingStep step = make_training_step(with_statistics(), {.clip_norm = 2});
  const auto norms = nodes_named(step.update, "sum_of_squares");
  ASSERT_EQ(norms.size(), 1U);
  EXPECT_EQ(norms[0]->inputs.size(), 6U);
  const auto factors = nodes_named(step.update, "clip_factor");
  ASSERT_EQ(factors.size(), 1U);
  EXPECT_EQ(factors[0]->attributes.real("max_norm"), 2);
  for (const Node* update : nodes_named(step.update, "sgd_update")) {
    EXPECT_EQ(update->inputs.back(), factors[0]->outputs[0]);
  }
  EXPECT_TRUE(nodes_named(make_training_step(with_statistics(), {}).update, "clip_factor").empty());
}

TEST(TrainingStep, AFrozenParameterHasNeitherGradientNorUpdate) {
  const auto last_only = [](const std::string& name) { return name.starts_with("fc2."); };
  const TrainingStep step = make_training_step(with_statistics(), {.trains = last_only});
  EXPECT_EQ(written(step.update, ValueKind::parameter),
            (std::vector<std::string>{"bn.running_mean", "bn.running_var", "fc2.weight", "fc2.bias"}));
  EXPECT_EQ(trainable_count(step.parameters), 5 * 3 + 3);
  EXPECT_EQ(step.parameters.size(), 8U);
  EXPECT_TRUE(nodes_named(step.gradient, "batch_norm_backward").empty());
}

TEST(TrainingStep, EachOptimizerHasItsOwnUpdateAndState) {
  const auto of = [](const Optimizer& optimizer) {
    return make_training_step(tiny(), {.optimizer = optimizer}).update;
  };
  EXPECT_EQ(nodes_named(of(SgdOptions{}), "sgd_update").size(), 2U);
  EXPECT_FALSE(of(SgdOptions{}).has(ValueKind::optimizer_state, "fc.bias", "momentum"));
  EXPECT_TRUE(of(SgdOptions{.momentum = 0.9}).has(ValueKind::optimizer_state, "fc.bias", "momentum"));
  EXPECT_TRUE(of(AdamOptions{}).has(ValueKind::optimizer_state, "fc.weight", "adam_v"));
  EXPECT_TRUE(
      nodes_named(of(AdamOptions{.decoupled = true}), "adam_update")[0]->attributes.flag("decoupled"));
  EXPECT_TRUE(of(RmspropOptions{}).has(ValueKind::optimizer_state, "fc.weight", "rmsprop_s"));
  EXPECT_EQ(nodes_named(of(AdagradOptions{}), "adagrad_update").size(), 2U);
  EXPECT_TRUE(of(AdagradOptions{}).has(ValueKind::optimizer_state, "fc.weight", "adagrad_s"));
}

TEST(TrainingStep, AParameterMayHaveAnOptimizerAndARateOfItsOwn) {
  const ParameterOptimizer of_bias{.optimizer = SgdOptions{.momentum = 0.5}, .rate = 0.25};
  const TrainingStep step = make_training_step(
      tiny(), {.optimizer = SgdOptions{.weight_decay = 0.1}, .own_optimizers = {{"fc.bias", of_bias}}});
  const std::vector<const Node*> updates = nodes_named(step.update, "sgd_update");
  ASSERT_EQ(updates.size(), 2U);
  const Attributes& weight = updates[0]->attributes;
  EXPECT_EQ(weight.real("weight_decay"), 0.1);
  EXPECT_EQ(rate_of_update(weight), 1);
  const Attributes& bias = updates[1]->attributes;
  EXPECT_EQ(bias.real("momentum"), 0.5);
  EXPECT_EQ(bias.real("weight_decay"), 0);
  EXPECT_EQ(rate_of_update(bias), 0.25);
}

TEST(TrainingStep, LearningRateSamplesAndStepAreInputs) {
  const Graph update = make_training_step(tiny(), {.optimizer = AdamOptions{}}).update;
  for (const char* name : {"learning_rate", "samples", "step"}) {
    EXPECT_EQ(update.value(update.find(ValueKind::input, name)).type, (TensorType{DType::f32, {1}})) << name;
  }
}

TEST(TrainingStep, DropoutNeedsSampleAndRandomInTrainingOnly) {
  const TrainingStep step = make_training_step(make_model("convnet", {}, {1, 28, 28}, 10), {.batch = 6});
  EXPECT_EQ(step.gradient.value(step.gradient.find(ValueKind::input, "sample")).type,
            (TensorType{DType::i32, {6, 2}}));
  EXPECT_EQ(step.gradient.value(step.gradient.find(ValueKind::input, "random")).type,
            (TensorType{DType::i32, {4}}));
  EXPECT_FALSE(step.evaluation.has(ValueKind::input, "sample"));
  EXPECT_FALSE(step.prediction.has(ValueKind::input, "label"));
}

TEST(TrainingStep, HasTheRequestedMetrics) {
  const TrainingStep step = make_training_step(make_model("mlp", {}, {4}, 7), {.top_k = {1, 5}});
  EXPECT_EQ(step.metrics, (std::vector<std::string>{"loss", "accuracy", "top5"}));
  for (const Graph* graph : {&step.gradient, &step.evaluation}) {
    EXPECT_EQ(written(*graph, ValueKind::metric), step.metrics);
  }
}

TEST(TrainingStep, SquaredErrorNeedsTargetsOfThePredictionsShape) {
  const TrainingStep step = make_training_step(tiny(), {.batch = 5, .loss = Loss::mean_squared_error});
  EXPECT_EQ(step.gradient.value(step.gradient.find(ValueKind::input, "label")).type,
            (TensorType{DType::f32, {5, 3}}));
  EXPECT_EQ(step.metrics, std::vector<std::string>{"loss"});
}

TEST(TrainingStep, InBf16TheMasterWeightsGradientsAndLossStayF32) {
  const TrainingStep step =
      make_training_step(make_model("resnet18", {}, {3, 64, 64}, 10), {.precision = Precision::bf16});
  for (const Value& value : step.gradient.values()) {
    if (value.kind == ValueKind::parameter || value.is_buffer()) {
      EXPECT_EQ(value.type.dtype, DType::f32) << value.text();
    }
  }
  for (const Node* node : nodes_named(step.gradient, "conv2d")) {
    EXPECT_EQ(step.gradient.value(node->outputs[0]).type.dtype, DType::bf16);
  }
  EXPECT_EQ(step.prediction.value(step.prediction.output("prediction")).type.dtype, DType::f32);
}

// Running statistics are weighted by the batch size; no image needs to be converted for that.
TEST(TrainingStep, InBf16NoImageInsideTheNetworkIsConverted) {
  const TrainingStep step =
      make_training_step(make_model("resnet18", {}, {3, 64, 64}, 10), {.precision = Precision::bf16});
  for (const Node* node : nodes_named(step.gradient, "convert")) {
    const Value& from = step.gradient.value(node->inputs[0]);
    if (from.type.shape.rank() == 4) {
      EXPECT_NE(from.kind, ValueKind::result) << node->scope;
    }
  }
}

// bf16 holds whole numbers up to 256. Beyond, two positions, or two places in a confusion matrix, would be
// one.
TEST(TrainingStep, InBf16WholeNumbersAreComparedInF32) {
  const StepOptions options{.batch = 2, .metrics = {"confusion_matrix", "f1"}, .precision = Precision::bf16};
  const TrainingStep step = make_training_step(make_model("gpt_small", {}, {512}, 256), options);
  for (const Graph* graph : {&step.gradient, &step.evaluation, &step.prediction}) {
    std::vector<ValueId> todo;
    for (const std::string name : {"within", "to_indices"})
      for (const Node* node : nodes_named(*graph, name)) todo.push_back(node->inputs[0]);
    EXPECT_FALSE(todo.empty());
    while (!todo.empty()) {
      const ValueId value = todo.back();
      todo.pop_back();
      const TensorType& type = graph->value(value).type;
      EXPECT_NE(type.dtype, DType::bf16) << value;
      for (const Node& node : graph->nodes())
        if (type.dtype == DType::f32 && std::ranges::count(node.outputs, value) > 0 &&
            node.op->name() != "within")
          todo.insert(todo.end(), node.inputs.begin(), node.inputs.end());
    }
    for (const Node* node : nodes_named(*graph, "matmul"))
      EXPECT_EQ(graph->value(node->outputs[0]).type.dtype, DType::bf16);
  }
}

// A mean over 257 tokens divides by 257, which bf16 does not have.
TEST(TrainingStep, InBf16TheTokensOfAMeanAreCountedInF32) {
  const StepOptions options{.batch = 2, .precision = Precision::bf16};
  const Model model = make_model("text_classifier", {{"vocabulary", int64_t{1000}}}, {512}, 5);
  const TrainingStep step = make_training_step(model, options);
  for (const Graph* graph : {&step.gradient, &step.evaluation, &step.prediction}) {
    int counted = 0;
    for (const std::string name : {"reduce_sum", "clamp", "pow", "mul"}) {
      for (const Node* node : nodes_named(*graph, name)) {
        if (!node->scope.ends_with("mean") || graph->value(node->outputs[0]).type.shape.rank() != 2) continue;
        EXPECT_EQ(graph->value(node->outputs[0]).type.dtype, DType::f32) << name;
        ++counted;
      }
    }
    EXPECT_GE(counted, 4);
    int products = 0;
    for (const Node* node : nodes_named(*graph, "matmul"))
      products += graph->value(node->outputs[0]).type.dtype == DType::bf16 ? 1 : 0;
    EXPECT_GT(products, 0) << "the sum of the vectors is one";
  }
}

TEST(TrainingStep, TakesALabelForEachPosition) {
  const Model positions{"positions", {5, 4}, DType::f32, [](ModelBuilder& model, ValueId x) {
                          return linear(model, "fc", x, 3);
                        }};
  const TrainingStep step =
      make_training_step(positions, {.batch = 2, .metrics = {"perplexity", "confusion_matrix"}});
  const Graph& graph = step.evaluation;
  EXPECT_EQ(graph.value(graph.find(ValueKind::input, "label")).type, (TensorType{DType::i32, {2, 5}}));
  EXPECT_EQ(step.metrics, names_of_sums({.metrics = {"perplexity", "confusion_matrix"}}, 3));
  // Means over samples are of means over positions; counts are of positions.
  for (const Node* node : nodes_named(graph, "accumulate")) {
    const std::string& name = graph.value(node->inputs[0]).name;
    const Node& added = graph.nodes()[static_cast<size_t>(graph.value(node->inputs[1]).node)];
    const bool mean = name != "confusion_counts";
    ASSERT_EQ(added.op->name() == "scale", mean) << name;
    if (mean) {
      EXPECT_EQ(added.attributes.real("factor"), 0.2) << name;
    }
  }
}

TEST(TrainingStep, RefusesInvalidOptionsAndModels) {
  EXPECT_THROW(make_training_step(tiny(), {.batch = 0}), Error);
  EXPECT_THROW(make_training_step(tiny(), {.loss_options = {.label_smoothing = 1}}), Error);
  EXPECT_THROW(make_training_step(tiny(), {.clip_norm = 0}), Error);
  EXPECT_THROW(make_training_step(tiny(), {.top_k = {4}}), Error);
  EXPECT_THROW(make_training_step(tiny(), {.trains = [](const std::string&) { return false; }}), Error);
  const Model no_logits{"none", {3}, DType::f32, [](ModelBuilder& model, ValueId x) {
                          return reshape(model, linear(model, "fc", x, 1), {-1});
                        }};
  EXPECT_THROW(make_training_step(no_logits, {}), Error);
}

}  // namespace
}  // namespace telar
