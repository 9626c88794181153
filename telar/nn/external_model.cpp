#include "telar/nn/external_model.h"

#include "telar/graph/ops/accumulate.h"

namespace telar {

namespace {

constexpr int64_t kExampleBatch = 2;

/// A builder with the inputs of all three graphs.
struct Parts {
  GraphBuilder graph;
  ValueId rows;
  std::vector<ValueId> parameters;

  explicit Parts(const ExternalForm& form) : rows(graph.input("x", {DType::i32, {kExampleBatch}}, true)) {
    for (const ParameterInfo& parameter : form.parameters)
      parameters.push_back(graph.parameter(parameter.name, {DType::f32, parameter.shape}));
  }
};

Graph training_graph(const ExternalForm& form, const std::string& function) {
  Parts parts(form);
  const auto results =
      external_loss(parts.graph, parts.rows, parts.parameters, function, ExternalMode::training);
  accumulate(parts.graph, parts.graph.metric(kLoss), results[0]);
  for (size_t i = 0; i < form.parameters.size(); ++i) {
    const ParameterInfo& parameter = form.parameters[i];
    if (!parameter.trainable)
      accumulate(parts.graph, parts.graph.gradient(parameter.name, {DType::f32, parameter.shape}),
                 results[i + 1]);
  }
  return parts.graph.build();
}

Graph evaluation_graph(const ExternalForm& form, const std::string& function) {
  Parts parts(form);
  const auto results =
      external_loss(parts.graph, parts.rows, parts.parameters, function, ExternalMode::evaluation);
  accumulate(parts.graph, parts.graph.metric(kLoss), results[0]);
  return parts.graph.build();
}

Graph prediction_graph(const ExternalForm& form, const std::string& function) {
  Parts parts(form);
  parts.graph.output("prediction", external_prediction(parts.graph, parts.rows, parts.parameters, function,
                                                       form.prediction));
  return parts.graph.build();
}

}  // namespace

ExternalModel::ExternalModel(const ExternalForm& form, ExternalFunction function)
    : registration_(std::move(function)) {
  ModelGraphs graphs{training_graph(form, registration_.name()),
                     evaluation_graph(form, registration_.name()),
                     prediction_graph(form, registration_.name()),
                     form.parameters,
                     {},
                     {kLoss}};
  for (const ParameterInfo& parameter : form.parameters)
    if (!parameter.trainable) graphs.running_statistics.push_back({parameter.name, 1.0});
  model_ = {form.name, {}, DType::i32, {}, {}, std::make_shared<const ModelGraphs>(std::move(graphs))};
}

}  // namespace telar
