#include "telar/nn/loss.h"

#include <algorithm>
#include <numeric>

#include "telar/core/error.h"
#include "telar/graph/ops/activation.h"
#include "telar/graph/ops/arithmetic.h"
#include "telar/graph/ops/concat.h"
#include "telar/graph/ops/constant.h"
#include "telar/graph/ops/gather.h"
#include "telar/graph/ops/loss.h"
#include "telar/graph/ops/math.h"
#include "telar/graph/ops/reduce.h"
#include "telar/graph/ops/reshape.h"

namespace telar {

namespace {

void check_loss(Loss loss, const LossOptions& options, const Shape& prediction) {
  if (options.label_smoothing < 0 || options.label_smoothing >= 1)
    throw user_error("label smoothing is {}; it must be at least 0 and below 1", options.label_smoothing);
  if (options.label_smoothing > 0 && loss != Loss::cross_entropy)
    throw user_error("label smoothing is {}, but the loss is not cross-entropy; leave it out",
                     options.label_smoothing);
  if (!(options.delta > 0)) throw user_error("delta is {}; it must be above 0", options.delta);
  if (!(options.gamma >= 1)) throw user_error("gamma is {}; it must be at least 1", options.gamma);
  const std::vector<double>& weights = options.class_weights;
  if (weights.empty()) return;
  if (!takes_classes(loss))
    throw user_error("there are class weights, but the labels are numbers, not classes");
  if (prediction.rank() < 2 || std::ssize(weights) != prediction[prediction.rank() - 1])
    throw user_error("there are {} class weights for a prediction of {}; there must be one for each class",
                     weights.size(), prediction.str());
  if (std::ranges::any_of(weights, [](double weight) { return !(weight >= 0); }))
    throw user_error("a class weight is below 0; it must be at least 0");
}

/// [values], of which equal neighbours are one constant.
ValueId table_of(GraphBuilder& graph, const std::vector<double>& values) {
  std::vector<ValueId> runs;
  for (auto begin = values.begin(); begin != values.end();) {
    const auto end = std::find_if(begin, values.end(), [&](double value) { return value != *begin; });
    runs.push_back(constant(graph, *begin, {end - begin}));
    begin = end;
  }
  return runs.size() == 1 ? runs[0] : concat(graph, runs, 0);
}

/// −log p of each label: [N, …] of logits x and y = 0 … 1. Of p near 1 it keeps its digits.
ValueId binary_losses(GraphBuilder& graph, ValueId x, ValueId y) {
  const ValueId one = constant(graph, 1, {1});
  const ValueId of_true = mul(graph, softplus(graph, scale(graph, x, -1)), y);
  const ValueId of_false = mul(graph, softplus(graph, x), add(graph, scale(graph, y, -1), one));
  return add(graph, of_true, of_false);
}

/// (1 − p)^γ · loss, where loss = −log p.
ValueId focused(GraphBuilder& graph, ValueId losses, double gamma) {
  const ValueId missing = scale(graph, expm1(graph, scale(graph, losses, -1)), -1);
  return mul(graph, pow(graph, missing, gamma), losses);
}

/// c · (d − c / 2), where c = min(d, delta).
ValueId huber_of(GraphBuilder& graph, ValueId d, double delta) {
  const ValueId least = clamp(graph, d, 0, delta);
  return mul(graph, least, add(graph, d, scale(graph, least, -0.5)));
}

/// Of elements [N, …], the sum over the samples of their means.
ValueId sum_of_means(GraphBuilder& graph, ValueId elements) {
  const Shape shape = graph.type(elements).shape;
  std::vector<int64_t> axes(shape.rank() - 1);
  std::iota(axes.begin(), axes.end(), 1);
  if (!axes.empty()) elements = reduce_mean(graph, elements, axes);
  return reduce_sum(graph, elements, {});
}

ValueId classes_loss(GraphBuilder& graph, Loss loss, const LossOptions& options, ValueId prediction,
                     ValueId label) {
  if (loss == Loss::cross_entropy && options.class_weights.empty())
    return cross_entropy(graph, prediction, label, options.label_smoothing);
  ValueId losses = cross_entropy_of_rows(graph, prediction, label, options.label_smoothing);
  if (loss == Loss::focal) losses = focused(graph, losses, options.gamma);
  if (!options.class_weights.empty())
    losses = mul(graph, losses, gather(graph, table_of(graph, options.class_weights), label, 0));
  return reduce_sum(graph, losses, {});
}

}  // namespace

PositionRows rows_of_positions(GraphBuilder& graph, ValueId prediction, ValueId label) {
  const Shape shape = graph.type(prediction).shape;
  if (shape.rank() <= 2) return {prediction, label};
  const int64_t classes = shape[shape.rank() - 1];
  const int64_t positions = shape.elements_per_item() / classes;
  return {reshape(graph, prediction, {-1, classes}), reshape(graph, label, {-1}),
          1 / static_cast<double>(positions)};
}

bool takes_classes(Loss loss) { return loss == Loss::cross_entropy || loss == Loss::focal; }

bool takes_probabilities(Loss loss) {
  return loss == Loss::binary_cross_entropy || loss == Loss::binary_focal;
}

ValueId distance(GraphBuilder& graph, ValueId a, ValueId b) {
  const ValueId difference = add(graph, a, scale(graph, b, -1));
  return add(graph, relu(graph, difference), relu(graph, scale(graph, difference, -1)));
}

ValueId loss_of_samples(GraphBuilder& graph, Loss loss, const LossOptions& options, ValueId prediction,
                        ValueId label) {
  check_loss(loss, options, graph.type(prediction).shape);
  if (takes_classes(loss)) {
    const PositionRows rows = rows_of_positions(graph, prediction, label);
    const ValueId sum = classes_loss(graph, loss, options, rows.prediction, rows.label);
    return rows.weight == 1 ? sum : scale(graph, sum, rows.weight);
  }
  switch (loss) {
    case Loss::l1: return sum_of_means(graph, distance(graph, prediction, label));
    case Loss::huber:
      return sum_of_means(graph, huber_of(graph, distance(graph, prediction, label), options.delta));
    case Loss::binary_cross_entropy: return sum_of_means(graph, binary_losses(graph, prediction, label));
    case Loss::binary_focal:
      return sum_of_means(graph, focused(graph, binary_losses(graph, prediction, label), options.gamma));
    default: return mean_squared_error(graph, prediction, label);
  }
}

}  // namespace telar
