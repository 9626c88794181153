#include "telar/data/moments.h"

#include <algorithm>
#include <cmath>

#include "telar/core/buffer.h"

namespace telar {

Moments measured_moments(const Dataset& data, int64_t most) {
  const SampleSpec& spec = data.spec();
  const auto channels = static_cast<size_t>(spec.features[0]);
  const size_t plane = static_cast<size_t>(spec.features.elements()) / channels;
  Buffer features(spec.feature_bytes());
  Buffer label(spec.label_bytes());
  std::vector<double> sum(channels);
  std::vector<double> squares(channels);
  const int64_t count = std::min(data.size(), most);
  for (int64_t i = 0; i < count; ++i) {
    data.read(i * data.size() / count, {}, {features.data(), features.size()}, {label.data(), label.size()});
    const std::span<const float> values = features.as<float>();
    for (size_t channel = 0; channel < channels; ++channel) {
      for (const float value : values.subspan(channel * plane, plane)) {
        sum[channel] += value;
        squares[channel] += static_cast<double>(value) * value;
      }
    }
  }
  Moments moments;
  const auto total = static_cast<double>(count) * static_cast<double>(plane);
  for (size_t channel = 0; channel < channels; ++channel) {
    const double mean = sum[channel] / total;
    const double variance = squares[channel] / total - mean * mean;
    moments.mean.push_back(mean);
    moments.std.push_back(variance > 1e-12 * std::max(1.0, mean * mean) ? std::sqrt(variance) : 1);
  }
  return moments;
}

}  // namespace telar
