#include "telar/data/synthetic.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string_view>
#include <utility>

#include "telar/core/error.h"
#include "telar/core/random.h"

namespace telar {
namespace {

uint64_t stream(std::string_view name) { return stream_of(name.data(), name.size()); }

std::vector<float> normals(size_t count, uint64_t seed, std::string_view name) {
  RandomSequence random(seed, stream(name));
  std::vector<float> values(count);
  for (float& value : values) value = random.normal();
  return values;
}

Philox::Counter counter(int64_t sample, uint32_t position) {
  const auto number = static_cast<uint64_t>(sample);
  return {static_cast<uint32_t>(number), static_cast<uint32_t>(number >> 32U), position, 0};
}

class SyntheticBase : public Dataset {
 public:
  explicit SyntheticBase(const SyntheticOptions& options) : options_(options) {
    spec_.features = options.features;
    spec_.dtype = options.vocabulary > 0 ? DType::i32 : DType::f32;
    spec_.vocabulary = options.vocabulary;
    spec_.classes = options.classes;
    if (options.classes == 0) spec_.labels = {1};
  }
  int64_t size() const override { return options_.samples; }
  const SampleSpec& spec() const override { return spec_; }

 protected:
  int32_t class_of(int64_t number) const { return static_cast<int32_t>(number % options_.classes); }
  const SyntheticOptions& options() const { return options_; }

 private:
  SyntheticOptions options_;
  SampleSpec spec_;
};

/// Noise is taken from one pool of normal numbers, starting at a place that depends on the sample. (Drawing
/// it anew would cost more than a small network's step.) A class's mean is a grid of kGrid × kGrid patches
/// per channel.
class SyntheticValues : public SyntheticBase {
 public:
  explicit SyntheticValues(const SyntheticOptions& options)
      : SyntheticBase(options), place_(options.seed, stream("synthetic/place")) {
    const Shape& shape = options.features;
    const size_t rank = shape.rank();
    width_ = static_cast<size_t>(shape[rank - 1]);
    height_ = rank > 1 ? static_cast<size_t>(shape[rank - 2]) : 1;
    const auto elements = static_cast<size_t>(shape.elements());
    channels_ = elements / (width_ * height_);
    noise_ = normals(kPlaces + elements, options.seed, "synthetic/noise");
    const int64_t groups = std::max<int64_t>(options.classes, 1);
    const int64_t means = product_of({groups, static_cast<int64_t>(channels_), kGrid, kGrid});
    means_ = normals(static_cast<size_t>(means), options.seed, "synthetic/means");
  }

  void read(int64_t index, const SampleKey& /*key*/, std::span<std::byte> features,
            std::span<std::byte> label) const override {
    const int64_t number = options().first + index;
    const float* noise = noise_.data() + place_(counter(number, 0))[0] % kPlaces;
    const std::span<float> out = as_floats(features);
    if (options().classes == 0) {
      std::copy_n(noise, out.size(), out.begin());
      as_floats(label)[0] = target(out);
      return;
    }
    const int32_t group = class_of(number);
    const float* mean = means_.data() + static_cast<size_t>(group) * channels_ * kGrid * kGrid;
    float* to = out.data();
    for (size_t channel = 0; channel < channels_; ++channel, mean += kGrid * kGrid) {
      for (size_t y = 0; y < height_; ++y) {
        const float* row = mean + (y * kGrid / height_) * kGrid;
        for (size_t patch = 0; patch < kGrid; ++patch) {
          const size_t end = width_ * (patch + 1) / kGrid;
          const float shift = row[patch];
          for (size_t x = width_ * patch / kGrid; x < end; ++x) *to++ = *noise++ + shift;
        }
      }
    }
    as_ints(label)[0] = group;
  }

 private:
  static constexpr size_t kPlaces = size_t{1} << 16U;
  static constexpr size_t kGrid = 4;

  /// A weighted mean of the features, with unit variance.
  float target(std::span<const float> features) const {
    float sum = 0;
    for (size_t i = 0; i < features.size(); ++i) sum += features[i] * means_[i % means_.size()];
    return sum / std::sqrt(static_cast<float>(features.size()));
  }

  Philox place_;
  size_t channels_ = 0;
  size_t height_ = 0;
  size_t width_ = 0;
  std::vector<float> noise_;
  std::vector<float> means_;
};

class SyntheticTokens : public SyntheticBase {
 public:
  explicit SyntheticTokens(const SyntheticOptions& options)
      : SyntheticBase(options), tokens_(options.seed, stream("synthetic/tokens")) {}

  void read(int64_t index, const SampleKey& /*key*/, std::span<std::byte> features,
            std::span<std::byte> label) const override {
    const int64_t number = options().first + index;
    const int32_t group = class_of(number);
    const auto vocabulary = static_cast<uint32_t>(options().vocabulary);
    const auto classes = static_cast<uint32_t>(options().classes);
    const uint32_t own = vocabulary / classes;
    const std::span<int32_t> out = as_ints(features);
    for (size_t at = 0; at < out.size(); ++at) {
      const auto words = tokens_(counter(number, static_cast<uint32_t>(at)));
      const bool from_class = (words[0] & 1U) != 0;
      const uint32_t token =
          from_class ? static_cast<uint32_t>(group) * own + words[1] % own : words[1] % vocabulary;
      out[at] = static_cast<int32_t>(token);
    }
    as_ints(label)[0] = group;
  }

 private:
  Philox tokens_;
};

}  // namespace

DatasetPtr synthetic(const SyntheticOptions& options) {
  if (options.samples < 1)
    throw user_error("Synthetic data needs at least 1 sample, not {}", options.samples);
  if (options.first < 0)
    throw user_error("Synthetic data cannot begin with sample {}; the first is 0", options.first);
  const auto& dims = options.features.dims();
  if (dims.empty() || std::any_of(dims.begin(), dims.end(), [](int64_t extent) { return extent < 1; })) {
    throw user_error("Synthetic data of shape {} is not possible; all extents must be at least 1",
                     options.features.str());
  }
  if (options.classes < 0) throw user_error("Synthetic data cannot have {} classes", options.classes);
  if (options.vocabulary == 0) return std::make_shared<SyntheticValues>(options);
  if (options.classes < 1 || options.vocabulary < options.classes) {
    throw user_error(
        "Synthetic tokens need classes (not {}) and a vocabulary (not {}) of at least one token per class",
        options.classes, options.vocabulary);
  }
  return std::make_shared<SyntheticTokens>(options);
}

}  // namespace telar
