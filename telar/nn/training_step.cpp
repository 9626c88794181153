#include "telar/nn/training_step.h"

#include <algorithm>
#include <unordered_map>

#include "telar/core/error.h"
#include "telar/graph/autodiff.h"
#include "telar/graph/forward_part.h"
#include "telar/graph/mixed_precision.h"
#include "telar/graph/ops/accumulate.h"
#include "telar/graph/ops/reduce.h"
#include "telar/graph/training_step.h"
#include "telar/graph/winograd.h"
#include "telar/nn/metrics.h"

namespace telar {

namespace {

void check(const Model& model, const StepOptions& options) {
  if (options.batch < 1) {
    throw user_error("model '{}': the batch is {}; it must be at least 1", model.name, options.batch);
  }
  if (options.clip_norm && *options.clip_norm <= 0) {
    throw user_error("the gradient norm cannot be clipped to {}; it must be above 0", *options.clip_norm);
  }
}

void add_metric(GraphBuilder& graph, const std::string& name, ValueId value) {
  accumulate(graph, graph.metric(name), value);
}

void add_loss_and_metrics(GraphBuilder& graph, ValueId prediction, const StepOptions& options) {
  const Shape shape = graph.type(prediction).shape;
  TensorType type{DType::f32, shape};
  if (takes_classes(options.loss) && shape.rank() > 1)
    type = {DType::i32, Shape(std::vector<int64_t>(shape.begin(), shape.end() - 1))};
  const ValueId label = graph.input("label", type, true);
  {
    const ScopeGuard scope(graph, "loss");
    add_metric(graph, kLoss, loss_of_samples(graph, options.loss, options.loss_options, prediction, label));
  }
  add_metrics(graph, options, prediction, label);
}

void add_own_loss(ModelBuilder& builder, ValueId prediction, const Model& model) {
  const ScopeGuard scope(builder, "loss");
  const ValueId loss = model.loss(builder, prediction);
  const Shape shape = builder.shape(loss);
  if (shape != Shape{1} && shape != Shape{builder.batch()})
    throw user_error("model '{}': its loss is {}; it must be {}, a number for each sample, or their sum, [1]",
                     model.name, shape.str(), Shape{builder.batch()}.str());
  add_metric(builder, kLoss, reduce_sum(builder, loss, {}));
}

/// The samples that are evaluated have the tensors of those that are trained on.
void require_same_inputs(const Model& model, const ModelGraphs& graphs) {
  for (const Value& value : graphs.training.values()) {
    if (value.kind == ValueKind::input && value.batched && value.name != "sample" &&
        !graphs.evaluation.has(ValueKind::input, value.name))
      throw user_error("model '{}' has the input '{}' only in training; declare it in evaluation, too",
                       model.name, value.name);
  }
}

ModelBuilder built_with_loss(const Model& model, const StepOptions& options, Mode mode) {
  ModelBuilder builder(mode, options.batch, model.frozen);
  const ValueId prediction = model.build(builder, builder.input("x", model.input, model.sample));
  if (model.loss) {
    add_own_loss(builder, prediction, model);
  } else {
    add_loss_and_metrics(builder.graph(), prediction, options);
  }
  return builder;
}

ModelGraphs with_batch(const ModelGraphs& graphs, int64_t batch) {
  ModelGraphs changed = graphs;
  for (Graph* graph : {&changed.training, &changed.evaluation, &changed.prediction})
    *graph = graph->with_batch(batch);
  return changed;
}

Graph computed_as(Graph graph, const StepOptions& options) {
  if (options.convolution == Convolution::winograd) graph = allow_winograd(graph);
  if (options.precision == Precision::bf16) graph = mixed_precision(graph);
  return graph;
}

/// Names of the parameters whose gradients the graph writes, in the order in which it does.
std::vector<std::string> gradients_in_order(const Graph& graph) {
  std::vector<std::string> names;
  for (const Node& node : graph.nodes()) {
    if (!node.op->has_effect()) continue;
    const Value& target = graph.value(node.inputs[0]);
    if (target.kind == ValueKind::gradient) names.push_back(target.name);
  }
  return names;
}

void add_optimizer(GraphBuilder& graph, const std::string& name, const UpdateInputs& inputs,
                   const Optimizer& optimizer) {
  struct Visitor {
    GraphBuilder& graph;
    const std::string& name;
    const UpdateInputs& inputs;
    void operator()(const SgdOptions& options) const { sgd_update(graph, name, inputs, options); }
    void operator()(const AdamOptions& options) const { adam_update(graph, name, inputs, options); }
    void operator()(const RmspropOptions& options) const { rmsprop_update(graph, name, inputs, options); }
    void operator()(const AdagradOptions& options) const { adagrad_update(graph, name, inputs, options); }
  };
  std::visit(Visitor{graph, name, inputs}, optimizer);
}

Graph build_update(const ModelGraphs& forward, const std::vector<std::string>& order,
                   const StepOptions& options) {
  std::unordered_map<std::string, const ParameterInfo*> by_name;
  for (const ParameterInfo& parameter : forward.parameters) by_name[parameter.name] = &parameter;
  std::unordered_map<std::string, double> momentum;
  for (const RunningStatistic& statistic : forward.running_statistics)
    momentum[statistic.name] = statistic.momentum;

  GraphBuilder graph;
  UpdateInputs inputs;
  inputs.learning_rate = graph.input("learning_rate", {DType::f32, {1}}, false);
  inputs.samples = graph.input("samples", {DType::f32, {1}}, false);
  inputs.step = graph.input("step", {DType::f32, {1}}, false);
  std::vector<std::string> trained;
  for (const std::string& name : order) {
    graph.parameter(name, {DType::f32, by_name.at(name)->shape});
    if (by_name.at(name)->trainable) trained.push_back(name);
  }
  if (options.clip_norm) {
    inputs.clip_factor =
        clip_factor(graph, sum_of_squares(graph, trained), inputs.samples, *options.clip_norm);
  }
  for (const std::string& name : order) {
    const ScopeGuard scope(graph, name);
    if (by_name.at(name)->trainable) {
      const auto own = options.own_optimizers.find(name);
      const bool has_own = own != options.own_optimizers.end();
      inputs.rate = has_own ? own->second.rate : 1;
      add_optimizer(graph, name, inputs, has_own ? own->second.optimizer : options.optimizer);
    } else {
      running_average_update(graph, name, inputs.samples, momentum.at(name));
    }
  }
  return graph.build();
}

}  // namespace

ModelGraphs graphs_of(const Model& model, const StepOptions& options) {
  check(model, options);
  // A step is for batches of any size, and in a graph of one sample, what samples share looks like what one
  // has: the gradient of a penalty on parameters would not be multiplied by the samples.
  if (model.graphs != nullptr) return with_batch(*model.graphs, std::max<int64_t>(2, options.batch));
  ModelBuilder training = built_with_loss(model, options, Mode::training);
  ModelGraphs graphs;
  graphs.parameters = training.parameters();
  graphs.running_statistics = training.running_statistics();
  graphs.training = training.graph().build();
  graphs.evaluation = built_with_loss(model, options, Mode::evaluation).graph().build();
  graphs.prediction = forward_graph(model, Mode::evaluation, options.batch);
  const Shape shape = graphs.prediction.value(graphs.prediction.output("prediction")).type.shape;
  const bool has_outputs = shape.rank() == 2 || (takes_classes(options.loss) && shape.rank() > 2);
  graphs.metrics = model.loss ? std::vector<std::string>{kLoss}
                              : names_of_sums(options, has_outputs ? shape[shape.rank() - 1] : 0);
  require_same_inputs(model, graphs);
  return graphs;
}

TrainingStep make_training_step(const Model& model, const StepOptions& options) {
  ModelGraphs graphs = graphs_of(model, options);
  const Graph forward = computed_as(std::move(graphs.training), options);
  std::vector<ValueId> wanted;
  for (ParameterInfo& parameter : graphs.parameters) {
    if (!parameter.trainable) continue;
    if (options.trains && !options.trains(parameter.name)) {
      parameter.trainable = false;
    } else {
      wanted.push_back(forward.find(ValueKind::parameter, parameter.name));
    }
  }
  if (wanted.empty()) throw user_error("model '{}' has no parameter to train", model.name);

  TrainingStep step;
  step.forward_nodes = forward.nodes().size();
  step.gradient = differentiate(forward, loss_of(forward), wanted);
  step.update = build_update(graphs, gradients_in_order(step.gradient), options);
  step.evaluation = computed_as(std::move(graphs.evaluation), options);
  step.prediction = computed_as(std::move(graphs.prediction), options);
  step.parameters = std::move(graphs.parameters);
  step.metrics = std::move(graphs.metrics);
  return step;
}

}  // namespace telar
