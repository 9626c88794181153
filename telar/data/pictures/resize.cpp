#include "telar/data/pictures/resize.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace telar {
namespace {

/// The source pixels that contribute to one target pixel; the first is `first`, and the weights sum to 1.
struct Taps {
  size_t first = 0;
  std::vector<float> weights;
};

std::vector<Taps> taps_of(int64_t from, int64_t to) {
  const double factor = static_cast<double>(from) / static_cast<double>(to);
  const double support = std::max(factor, 1.0);
  std::vector<Taps> all;
  for (int64_t target = 0; target < to; ++target) {
    const double centre = (static_cast<double>(target) + 0.5) * factor;
    const auto first = std::max<int64_t>(std::lround(centre - support), 0);
    const auto last = std::min<int64_t>(std::lround(centre + support), from);
    Taps taps{static_cast<size_t>(first), {}};
    double sum = 0;
    for (int64_t source = first; source < last; ++source) {
      const double distance = std::abs(static_cast<double>(source) + 0.5 - centre) / support;
      const double weight = std::max(0.0, 1.0 - distance);
      taps.weights.push_back(static_cast<float>(weight));
      sum += weight;
    }
    for (float& weight : taps.weights) weight = static_cast<float>(weight / sum);
    all.push_back(std::move(taps));
  }
  return all;
}

}  // namespace

void resize_to_planes(const Image& image, int64_t height, int64_t width, std::span<float> planes) {
  const std::vector<Taps> across = taps_of(image.width, width);
  const std::vector<Taps> down = taps_of(image.height, height);
  const auto channels = static_cast<size_t>(image.channels);
  const auto columns = static_cast<size_t>(width);
  const auto rows = static_cast<size_t>(image.height);

  // First resize each source row to the target's width, [channels, source height, width]; then the columns.
  std::vector<float> narrow(channels * rows * columns);
  for (size_t y = 0; y < rows; ++y) {
    const uint8_t* row = image.pixels.data() + y * static_cast<size_t>(image.width) * channels;
    for (size_t x = 0; x < columns; ++x) {
      const Taps& taps = across[x];
      for (size_t channel = 0; channel < channels; ++channel) {
        const uint8_t* pixel = row + taps.first * channels + channel;
        float sum = 0;
        for (const float weight : taps.weights) {
          sum += weight * static_cast<float>(*pixel);
          pixel += channels;
        }
        narrow[(channel * rows + y) * columns + x] = sum * (1.0F / 255.0F);
      }
    }
  }
  std::fill(planes.begin(), planes.end(), 0.0F);
  float* out = planes.data();
  for (size_t channel = 0; channel < channels; ++channel) {
    for (const Taps& taps : down) {
      const float* row = narrow.data() + (channel * rows + taps.first) * columns;
      for (const float weight : taps.weights) {
        for (size_t x = 0; x < columns; ++x) out[x] += weight * row[x];
        row += columns;
      }
      out += columns;
    }
  }
}

}  // namespace telar
