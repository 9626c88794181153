#include "cuda/fake_norm.h"

#include <algorithm>
#include <cmath>

namespace telar::test {

namespace {

constexpr size_t kX = 0;
constexpr size_t kMean = 1;
constexpr size_t kInverse = 2;
constexpr size_t kScale = 3;
// Forwards.
constexpr size_t kShift = 4;
constexpr size_t kY = 5;
constexpr size_t kEpsilon = 6;
// Backwards.
constexpr size_t kDy = 4;
constexpr size_t kDx = 5;
constexpr size_t kScaleGradient = 6;
constexpr size_t kShiftGradient = 7;

bool is_forward(const Described& operation) {
  return operation.type == CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR;
}
bool is_training(const Described& operation) {
  return operation.one<cudnnBackendNormFwdPhase_t>(CUDNN_ATTR_OPERATION_NORM_FWD_PHASE) ==
         CUDNN_NORM_FWD_TRAINING;
}

/// Calls f(place) for each value of a channel.
template <typename F>
void for_each_in_channel(const FakeTensor& of, int64_t channel, const F& f) {
  for (int64_t n = 0; n < of.extents[0]; ++n)
    for (int64_t h = 0; h < of.extents[2]; ++h)
      for (int64_t w = 0; w < of.extents[3]; ++w) f(Extents{n, channel, h, w});
}

double values_of_channel(const FakeTensor& of) {
  return static_cast<double>(of.extents[0] * of.extents[2] * of.extents[3]);
}

void find_statistics(const Operands& operands, const Extents& channel) {
  const auto& tensors = operands.tensors;
  const double count = values_of_channel(tensors[kX]);
  double mean = 0;
  for_each_in_channel(tensors[kX], channel[1],
                      [&](const Extents& at) { mean += tensors[kX].load(at) / count; });
  double variance = 0;
  for_each_in_channel(tensors[kX], channel[1], [&](const Extents& at) {
    variance += std::pow(tensors[kX].load(at) - mean, 2) / count;
  });
  tensors[kMean].store(channel, static_cast<float>(mean));
  tensors[kInverse].store(channel, static_cast<float>(1 / std::sqrt(variance + tensors[kEpsilon].load({}))));
}

void compute_forward(const Operands& operands, const Extents& channel) {
  const auto& tensors = operands.tensors;
  for_each_in_channel(tensors[kX], channel[1], [&](const Extents& at) {
    const float normal =
        (tensors[kX].load(at) - tensors[kMean].load(channel)) * tensors[kInverse].load(channel);
    tensors[kY].store(at, std::fma(tensors[kScale].load(channel), normal, tensors[kShift].load(channel)));
  });
}

void compute_backward(const Operands& operands, const Extents& channel) {
  const auto& tensors = operands.tensors;
  const auto normal = [&](const Extents& at) {
    return (tensors[kX].load(at) - tensors[kMean].load(channel)) * tensors[kInverse].load(channel);
  };
  double scale = 0;
  double shift = 0;
  for_each_in_channel(tensors[kX], channel[1], [&](const Extents& at) {
    scale += static_cast<double>(tensors[kDy].load(at)) * normal(at);
    shift += tensors[kDy].load(at);
  });
  tensors[kScaleGradient].store(channel, static_cast<float>(scale));
  tensors[kShiftGradient].store(channel, static_cast<float>(shift));
  const double count = values_of_channel(tensors[kX]);
  for_each_in_channel(tensors[kX], channel[1], [&](const Extents& at) {
    const double slope = tensors[kDy].load(at) - shift / count - normal(at) * scale / count;
    tensors[kDx].store(
        at, static_cast<float>(tensors[kScale].load(channel) * tensors[kInverse].load(channel) * slope));
  });
}

bool is_of_channels(const FakeTensor& tensor, int64_t channels) {
  return tensor.type == CUDNN_DATA_FLOAT && tensor.stored && tensor.extents == Extents{1, channels, 1, 1};
}

}  // namespace

bool is_norm(const Described& operation) {
  return is_forward(operation) || operation.type == CUDNN_BACKEND_OPERATION_NORM_BACKWARD_DESCRIPTOR;
}

Operands norm_operands(const Described& operation) {
  std::vector<cudnnBackendAttributeName_t> names;
  if (is_forward(operation)) {
    names = {CUDNN_ATTR_OPERATION_NORM_FWD_XDESC,
             CUDNN_ATTR_OPERATION_NORM_FWD_MEAN_DESC,
             CUDNN_ATTR_OPERATION_NORM_FWD_INV_VARIANCE_DESC,
             CUDNN_ATTR_OPERATION_NORM_FWD_SCALE_DESC,
             CUDNN_ATTR_OPERATION_NORM_FWD_BIAS_DESC,
             CUDNN_ATTR_OPERATION_NORM_FWD_YDESC};
    if (is_training(operation)) names.push_back(CUDNN_ATTR_OPERATION_NORM_FWD_EPSILON_DESC);
  } else {
    names = {CUDNN_ATTR_OPERATION_NORM_BWD_XDESC,
             CUDNN_ATTR_OPERATION_NORM_BWD_MEAN_DESC,
             CUDNN_ATTR_OPERATION_NORM_BWD_INV_VARIANCE_DESC,
             CUDNN_ATTR_OPERATION_NORM_BWD_SCALE_DESC,
             CUDNN_ATTR_OPERATION_NORM_BWD_DYDESC,
             CUDNN_ATTR_OPERATION_NORM_BWD_DXDESC,
             CUDNN_ATTR_OPERATION_NORM_BWD_DSCALE_DESC,
             CUDNN_ATTR_OPERATION_NORM_BWD_DBIAS_DESC};
  }
  Operands operands;
  for (const auto name : names) operands.tensors.emplace_back(operation.described(name));
  operands.result = is_forward(operation) ? kY : kDx;
  return operands;
}

bool is_right_norm(const Described& operation) {
  const auto& tensors = norm_operands(operation).tensors;
  const bool forward = is_forward(operation);
  const auto mode = forward ? CUDNN_ATTR_OPERATION_NORM_FWD_MODE : CUDNN_ATTR_OPERATION_NORM_BWD_MODE;
  bool right = operation.one<cudnnBackendNormMode_t>(mode) == CUDNN_BATCH_NORM;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (forward && i == kEpsilon) {
      right =
          right && tensors[i].by_value && tensors[i].type == CUDNN_DATA_FLOAT && tensors[i].elements() == 1;
    } else if (i == kX || i == kDy + (forward ? 1U : 0U) || (!forward && i == kDx)) {
      right = right && tensors[i].extents == tensors[kX].extents;
    } else {
      right = right && is_of_channels(tensors[i], tensors[kX].extents[1]);
    }
  }
  return right;
}

void compute_norm(const Described& operation, const Operands& operands) {
  for (int64_t c = 0; c < operands.tensors[kX].extents[1]; ++c) {
    const Extents channel{0, c, 0, 0};
    if (!is_forward(operation)) {
      compute_backward(operands, channel);
      continue;
    }
    if (is_training(operation)) find_statistics(operands, channel);
    compute_forward(operands, channel);
  }
}

}  // namespace telar::test
