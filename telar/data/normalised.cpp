#include "telar/data/normalised.h"

#include <cmath>
#include <utility>

#include "telar/core/error.h"
#include "telar/data/pixel_loops.h"

namespace telar {
namespace {

/// Computes x × scale + shift.
class Normalised : public Dataset {
 public:
  Normalised(DatasetPtr data, ChannelScale channels)
      : data_(std::move(data)), channels_(std::move(channels)) {}

  int64_t size() const override { return data_->size(); }
  const SampleSpec& spec() const override { return data_->spec(); }
  bool random() const override { return data_->random(); }

  void expect(int64_t index) const override { data_->expect(index); }

  void read(int64_t index, const SampleKey& key, std::span<std::byte> features,
            std::span<std::byte> label) const override {
    data_->read(index, key, features, label);
    channels_.apply(as_floats(features));
  }

 private:
  DatasetPtr data_;
  ChannelScale channels_;
};

/// Takes the wide features of a sample, or f32 ones as wide.
class WideReader : public Dataset {
 public:
  explicit WideReader(DatasetPtr data) : data_(std::move(data)), spec_(data_->spec()) { spec_.wide = false; }

  int64_t size() const override { return data_->size(); }
  const SampleSpec& spec() const override { return spec_; }
  bool random() const override { return data_->random(); }

  void expect(int64_t index) const override { data_->expect(index); }

 protected:
  /// Calls take(x, i) for each feature.
  template <typename Take>
  void read_each(int64_t index, const SampleKey& key, std::span<std::byte> features,
                 std::span<std::byte> label, const Take& take) const {
    if (!data_->spec().wide) {
      data_->read(index, key, features, label);
      const std::span<float> values = as_floats(features);
      for (size_t i = 0; i < values.size(); ++i) take(static_cast<double>(values[i]), i);
      return;
    }
    thread_local std::vector<double> values;
    values.resize(features.size() / sizeof(float));
    data_->read(index, key, std::as_writable_bytes(std::span(values)), label);
    for (size_t i = 0; i < values.size(); ++i) take(values[i], i);
  }

 private:
  DatasetPtr data_;
  SampleSpec spec_;
};

class WithoutWidth final : public WideReader {
 public:
  using WideReader::WideReader;

  void read(int64_t index, const SampleKey& key, std::span<std::byte> features,
            std::span<std::byte> label) const override {
    const std::span<float> out = as_floats(features);
    read_each(index, key, features, label, [&](double x, size_t i) { out[i] = static_cast<float>(x); });
  }
};

/// Computes (x − mean) / std in f64.
class NormalisedWide final : public WideReader {
 public:
  NormalisedWide(DatasetPtr data, std::vector<double> mean, std::vector<double> std)
      : WideReader(std::move(data)), mean_(std::move(mean)), std_(std::move(std)) {}

  void read(int64_t index, const SampleKey& key, std::span<std::byte> features,
            std::span<std::byte> label) const override {
    const std::span<float> out = as_floats(features);
    const size_t plane = out.size() / mean_.size();
    read_each(index, key, features, label, [&](double x, size_t i) {
      const size_t channel = i / plane;
      out[i] = static_cast<float>((x - mean_[channel]) / std_[channel]);
    });
  }

 private:
  std::vector<double> mean_;
  std::vector<double> std_;
};

/// Whether (x − mean) / std can be computed in f32 as x × scale + shift: the mean is not much larger than the
/// deviation, and neither is near the limits of f32.
bool suits_f32(const std::vector<double>& mean, const std::vector<double>& std) {
  constexpr double kMostDeviations = 64;  // 2⁶ of the 2²⁴ that f32 tells apart
  constexpr double kLeast = 1e-30;
  for (size_t channel = 0; channel < std.size(); ++channel)
    if (std[channel] < kLeast || std::fabs(mean[channel]) > kMostDeviations * std[channel]) return false;
  return true;
}

/// Throws Error (user) unless samples can be normalised with these.
void require_moments(const SampleSpec& spec, const std::vector<double>& mean,
                     const std::vector<double>& std) {
  if (spec.dtype != DType::f32)
    throw user_error("Only f32 features can be normalised, not {}", name_of(spec.dtype));
  const auto channels = static_cast<size_t>(spec.features[0]);
  if (mean.size() != std.size() || (mean.size() != 1 && mean.size() != channels)) {
    throw user_error(
        "Features {} have {} channels; normalising needs one mean and one std per channel, or one of each for all, not {} means and {} stds",
        spec.features.str(), channels, mean.size(), std.size());
  }
  for (size_t channel = 0; channel < std.size(); ++channel) {
    if (!(std[channel] > 0) || !std::isfinite(std[channel]) || !std::isfinite(mean[channel])) {
      throw user_error(
          "Normalising with mean {} and std {} (channel {}) is not possible; a finite mean and a std above 0 are needed",
          mean[channel], std[channel], channel);
    }
  }
}

}  // namespace

void ChannelScale::apply(std::span<float> values) const {
  if (scale.empty()) return;
  const size_t plane = values.size() / scale.size();
  for (size_t channel = 0; channel < scale.size(); ++channel)
    scale_and_shift(values.subspan(channel * plane, plane), scale[channel], shift[channel]);
}

ChannelScale channel_scale(const SampleSpec& spec, const std::vector<float>& mean,
                           const std::vector<float>& std) {
  require_moments(spec, {mean.begin(), mean.end()}, {std.begin(), std.end()});
  ChannelScale scaling;
  for (size_t channel = 0; channel < std.size(); ++channel) {
    scaling.scale.push_back(1.0F / std[channel]);
    scaling.shift.push_back(-mean[channel] / std[channel]);
  }
  return scaling;
}

DatasetPtr normalised(DatasetPtr data, const std::vector<double>& mean, const std::vector<double>& std,
                      Normalising how) {
  require_moments(data->spec(), mean, std);
  if (how == Normalising::rounded) {
    data = without_width(std::move(data));
  } else if (data->spec().wide || !suits_f32(mean, std)) {
    return std::make_shared<NormalisedWide>(std::move(data), mean, std);
  }
  ChannelScale channels = channel_scale(data->spec(), {mean.begin(), mean.end()}, {std.begin(), std.end()});
  return std::make_shared<Normalised>(std::move(data), std::move(channels));
}

DatasetPtr without_width(DatasetPtr data) {
  if (!data->spec().wide) return data;
  return std::make_shared<WithoutWidth>(std::move(data));
}

}  // namespace telar
