#pragma once

#include <cstdint>
#include <vector>

#include "telar/graph/graph.h"

namespace telar {

enum class Loss : uint8_t {
  cross_entropy,         ///< prediction: logits [N, …, classes]; label: i32 [N, …]
  focal,                 ///< the same
  mean_squared_error,    ///< prediction and label: f32 of the same shape [N, …]
  l1,                    ///< the same
  huber,                 ///< the same
  binary_cross_entropy,  ///< the same; the prediction is logits, and labels are 0 … 1
  binary_focal           ///< the same; labels are 0 or 1
};

/// Whether labels are numbers of classes.
bool takes_classes(Loss loss);
/// Whether predictions are logits of labels that are 0 to 1, each for itself.
bool takes_probabilities(Loss loss);

struct LossOptions {
  double label_smoothing = 0;         ///< cross-entropy only, 0 ≤ s < 1
  double delta = 1;                   ///< of Huber's loss, above 0
  double gamma = 2;                   ///< of the focal losses, at least 1
  std::vector<double> class_weights;  ///< of classes only: one for each class, or none
};

/// The sum over the samples of their losses, f32 [1]. If a label has several elements, a sample's loss is the
/// mean over them:
///   cross_entropy: −Σ_c q(c) log softmax(x)_c, where q is the smoothed one-hot label
///   focal: (1 − p)^γ · −log p, p the label's probability (Lin et al., "Focal loss", 2017); with class weights
///     instead of its α. binary_focal: the same of each label, p = sigmoid(x) or 1 − sigmoid(x)
///   l1: |x − y|; huber: (x − y)² / 2, beyond `delta` delta · (|x − y| − delta / 2)
///   binary_cross_entropy: −y log sigmoid(x) − (1 − y) log(1 − sigmoid(x))
/// A class weight multiplies the losses of the samples with that label; the mean is still taken over the
/// number of samples. Throws Error (user) for options out of range.
ValueId loss_of_samples(GraphBuilder& graph, Loss loss, const LossOptions& options, ValueId prediction,
                        ValueId label);

/// Classes of positions as if each position were a sample: a prediction [N, …, C] as [N · positions, C], and
/// its label [N, …] as [N · positions].
struct PositionRows {
  ValueId prediction = kNoValue;
  ValueId label = kNoValue;
  double weight = 1;  ///< of a row in a mean over samples: 1 / positions
};
PositionRows rows_of_positions(GraphBuilder& graph, ValueId prediction, ValueId label);

/// |a − b|, with the derivative 0 where they are equal.
ValueId distance(GraphBuilder& graph, ValueId a, ValueId b);

}  // namespace telar
