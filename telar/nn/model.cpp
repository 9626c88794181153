#include "telar/nn/model.h"

#include "telar/core/error.h"

namespace telar {

namespace {

ModelBuilder built(const Model& model, Mode mode, int64_t batch) {
  ModelBuilder builder(mode, batch, model.frozen);
  const ValueId x = builder.input("x", model.input, model.sample);
  builder.graph().output("prediction", model.build(builder, x));
  return builder;
}

}  // namespace

Graph forward_graph(const Model& model, Mode mode, int64_t batch) {
  if (model.graphs != nullptr) {
    if (mode == Mode::training)
      throw run_error("model '{}' came as graphs, which have no forward part alone for training", model.name);
    return model.graphs->prediction.with_batch(batch);
  }
  return built(model, mode, batch).graph().build();
}

std::vector<ParameterInfo> parameters_of(const Model& model) {
  if (model.graphs != nullptr) return model.graphs->parameters;
  return built(model, Mode::evaluation, 1).parameters();
}

int64_t trainable_count(const std::vector<ParameterInfo>& parameters) {
  int64_t count = 0;
  for (const ParameterInfo& parameter : parameters)
    count += parameter.trainable ? parameter.shape.elements() : 0;
  return count;
}

}  // namespace telar
