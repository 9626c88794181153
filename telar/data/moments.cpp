#include "telar/data/moments.h"

#include <algorithm>
#include <cmath>

#include "telar/core/buffer.h"

namespace telar {

void MomentSums::add(const MomentSums& other, double weight) {
  sum.resize(other.sum.size());
  squares.resize(other.squares.size());
  values += weight * other.values;
  for (size_t channel = 0; channel < sum.size(); ++channel) {
    sum[channel] += weight * other.sum[channel];
    squares[channel] += weight * other.squares[channel];
  }
}

MomentSums moment_sums(const Dataset& data, int64_t most) {
  const SampleSpec& spec = data.spec();
  const auto channels = static_cast<size_t>(spec.features[0]);
  const size_t plane = static_cast<size_t>(spec.features.elements()) / channels;
  Buffer features(spec.feature_bytes());
  Buffer label(spec.label_bytes());
  MomentSums sums{0, std::vector<double>(channels), std::vector<double>(channels)};
  const int64_t count = std::min(data.size(), most);
  for (int64_t i = 0; i < count; ++i) {
    data.read(i * data.size() / count, {}, {features.data(), features.size()}, {label.data(), label.size()});
    const std::span<const float> values = features.as<float>();
    for (size_t channel = 0; channel < channels; ++channel) {
      for (const float value : values.subspan(channel * plane, plane)) {
        sums.sum[channel] += value;
        sums.squares[channel] += static_cast<double>(value) * value;
      }
    }
  }
  sums.values = static_cast<double>(count) * static_cast<double>(plane);
  return sums;
}

Moments moments_of(const MomentSums& sums) {
  Moments moments;
  for (size_t channel = 0; channel < sums.sum.size(); ++channel) {
    const double mean = sums.sum[channel] / sums.values;
    const double variance = sums.squares[channel] / sums.values - mean * mean;
    moments.mean.push_back(mean);
    moments.std.push_back(variance > 1e-12 * std::max(1.0, mean * mean) ? std::sqrt(variance) : 1);
  }
  return moments;
}

}  // namespace telar
