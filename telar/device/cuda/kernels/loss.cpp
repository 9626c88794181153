#include "telar/device/cuda/loops/loss.h"

#include <optional>

#include "telar/device/cuda/check.h"
#include "telar/device/cuda/kernels.h"

namespace telar::cuda {

namespace {

Classes classes_of(const Shape& logits) { return {logits[0], logits[1]}; }

float smoothing_of(const Node& node) { return static_cast<float>(node.attributes.real("label_smoothing")); }

/// The memory of a loss or metric. It is the sum over all runs when the result is only added to that sum.
struct Total {
  RegionId region;
  bool adding;
};
Total total_of(Lowering& lowering, ValueId result) {
  if (const auto metric = lowering.metric_of(result)) return {*metric, true};
  return {lowering.define_plain(result), false};
}

/// The gradient of a loss. If it is not known when the graph is lowered, its region is appended to `reads`.
std::optional<float> known_gradient(Lowering& lowering, ValueId dloss, std::vector<RegionId>& reads) {
  const std::optional<float> known = lowering.constant(dloss);
  if (!known) reads.push_back(lowering.plain_region(dloss));
  return known;
}

/// The gradient, which is pointer `i` unless it is known, followed by dx.
struct GradientAndResult {
  LossGradient dloss;
  float* dx;
};
GradientAndResult gradient_and_result(std::optional<float> known, const Pointers& p, size_t i) {
  if (known) return {{*known, nullptr}, p.get<float>(i)};
  return {{1, p.get<const float>(i)}, p.get<float>(i + 1)};
}

RegionId number_for_each(Lowering& lowering, int64_t count) {
  return lowering.temporary(static_cast<size_t>(count) * sizeof(float));
}

void lower_cross_entropy(Lowering& lowering, const Node& node) {
  const ValueId logits = node.inputs[0];
  const Classes extents = classes_of(lowering.shape(logits));
  const std::vector<RegionId> reads{lowering.plain_region(logits), lowering.plain_region(node.inputs[1])};
  const Total loss = total_of(lowering, node.outputs[0]);
  const RegionId log_probabilities = lowering.define_in_place(node.outputs[1], logits);
  lowering.add(reads, {loss.region, log_probabilities, number_for_each(lowering, extents.rows)},
               [=, smoothing = smoothing_of(node), stream = lowering.stream()](const Pointers& p) {
                 check(
                     cross_entropy(extents, smoothing, p.get<const float>(0), p.get<const int32_t>(1),
                                   {p.get<float>(2), loss.adding}, p.get<float>(3), p.get<float>(4), stream),
                     "cross entropy");
               });
}

void lower_cross_entropy_backward(Lowering& lowering, const Node& node) {
  const ValueId log_probabilities = node.inputs[0];
  std::vector<RegionId> reads{lowering.plain_region(log_probabilities),
                              lowering.plain_region(node.inputs[1])};
  const std::optional<float> known = known_gradient(lowering, node.inputs[2], reads);
  const RegionId dlogits = lowering.define_in_place(node.outputs[0], log_probabilities);
  lowering.add(reads, {dlogits},
               [known, extents = classes_of(lowering.shape(log_probabilities)),
                smoothing = smoothing_of(node), stream = lowering.stream()](const Pointers& p) {
                 const auto [dloss, to] = gradient_and_result(known, p, 2);
                 check(cross_entropy_backward(extents, smoothing, p.get<const float>(0),
                                              p.get<const int32_t>(1), dloss, to, stream),
                       "cross entropy's gradient");
               });
}

void lower_cross_entropy_of_rows(Lowering& lowering, const Node& node) {
  const ValueId logits = node.inputs[0];
  const std::vector<RegionId> reads{lowering.plain_region(logits), lowering.plain_region(node.inputs[1])};
  const RegionId losses = lowering.define_plain(node.outputs[0]);
  lowering.add(reads, {losses, lowering.define_in_place(node.outputs[1], logits)},
               [extents = classes_of(lowering.shape(logits)), smoothing = smoothing_of(node),
                stream = lowering.stream()](const Pointers& p) {
                 check(
                     cross_entropy_of_rows(extents, smoothing, p.get<const float>(0), p.get<const int32_t>(1),
                                           p.get<float>(3), p.get<float>(2), stream),
                     "cross entropy of rows");
               });
}

void lower_cross_entropy_of_rows_backward(Lowering& lowering, const Node& node) {
  const ValueId log_probabilities = node.inputs[0];
  const std::vector<RegionId> reads{lowering.plain_region(log_probabilities),
                                    lowering.plain_region(node.inputs[1]),
                                    lowering.plain_region(node.inputs[2])};
  lowering.add(reads, {lowering.define_in_place(node.outputs[0], log_probabilities)},
               [extents = classes_of(lowering.shape(log_probabilities)), smoothing = smoothing_of(node),
                stream = lowering.stream()](const Pointers& p) {
                 check(cross_entropy_of_rows_backward(extents, smoothing, p.get<const float>(0),
                                                      p.get<const int32_t>(1), p.get<const float>(2),
                                                      p.get<float>(3), stream),
                       "the gradient of the cross entropy of rows");
               });
}

void lower_mean_squared_error(Lowering& lowering, const Node& node) {
  const ValueId prediction = node.inputs[0];
  const Shape& shape = lowering.shape(prediction);
  const RegionId first = lowering.region(prediction);
  const RegionId second = lowering.region(node.inputs[1], lowering.layout(prediction));
  const Pieces pieces = pieces_of(1, shape.elements(), false);
  const Total loss = total_of(lowering, node.outputs[0]);
  lowering.add({first, second}, {loss.region, number_for_each(lowering, pieces.between())},
               [=, features = shape.elements_per_item(), stream = lowering.stream()](const Pointers& p) {
                 check(mean_squared_error(pieces, features, p.get<const float>(0), p.get<const float>(1),
                                          {p.get<float>(2), loss.adding}, p.get<float>(3), stream),
                       "the mean squared error");
               });
}

void lower_mean_squared_error_backward(Lowering& lowering, const Node& node) {
  const ValueId prediction = node.inputs[0];
  const Shape& shape = lowering.shape(prediction);
  std::vector<RegionId> reads{lowering.region(prediction),
                              lowering.region(node.inputs[1], lowering.layout(prediction))};
  const std::optional<float> known = known_gradient(lowering, node.inputs[2], reads);
  lowering.add(reads, {lowering.define_in_place(node.outputs[0], prediction)},
               [known, count = shape.elements(), features = shape.elements_per_item(),
                stream = lowering.stream()](const Pointers& p) {
                 const auto [dloss, to] = gradient_and_result(known, p, 2);
                 check(mean_squared_error_backward(count, features, p.get<const float>(0),
                                                   p.get<const float>(1), dloss, to, stream),
                       "the mean squared error's gradient");
               });
}

void lower_top_k_correct(Lowering& lowering, const Node& node) {
  const ValueId logits = node.inputs[0];
  const Classes extents = classes_of(lowering.shape(logits));
  const std::vector<RegionId> reads{lowering.plain_region(logits), lowering.plain_region(node.inputs[1])};
  const Total correct = total_of(lowering, node.outputs[0]);
  lowering.add(reads, {correct.region, number_for_each(lowering, extents.rows)},
               [=, k = node.attributes.integer("k"), stream = lowering.stream()](const Pointers& p) {
                 check(top_k_correct(extents, k, p.get<const float>(0), p.get<const int32_t>(1),
                                     {p.get<float>(2), correct.adding}, p.get<float>(3), stream),
                       "counting correct predictions");
               });
}

}  // namespace

void register_loss(Kernels& kernels) {
  kernels.add("cross_entropy", lower_cross_entropy);
  kernels.add("cross_entropy_backward", lower_cross_entropy_backward);
  kernels.add("cross_entropy_of_rows", lower_cross_entropy_of_rows);
  kernels.add("cross_entropy_of_rows_backward", lower_cross_entropy_of_rows_backward);
  kernels.add("mean_squared_error", lower_mean_squared_error);
  kernels.add("mean_squared_error_backward", lower_mean_squared_error_backward);
  kernels.add("top_k_correct", lower_top_k_correct);
}

}  // namespace telar::cuda
