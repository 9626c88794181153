#include "telar/data/normalised.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "telar/core/error.h"
#include "telar/data/pictures/pixel_loops.h"

namespace telar {
namespace {

/// Samples whose features are f32.
class Narrow : public Dataset {
 public:
  explicit Narrow(DatasetPtr data) : data_(std::move(data)), spec_(data_->spec()) { spec_.wide = false; }

  int64_t size() const override { return data_->size(); }
  const SampleSpec& spec() const override { return spec_; }
  bool random() const override { return data_->random(); }

  void expect(int64_t index) const override { data_->expect(index); }

 protected:
  const Dataset& data() const { return *data_; }

  /// The features as f64, until the next call on this thread. `features` is overwritten.
  std::span<const double> read_wide(int64_t index, const SampleKey& key, std::span<std::byte> features,
                                    std::span<std::byte> label) const {
    thread_local std::vector<double> values;
    if (data_->spec().wide) {
      values.resize(features.size() / sizeof(float));
      data_->read(index, key, std::as_writable_bytes(std::span(values)), label);
    } else {
      data_->read(index, key, features, label);
      const std::span<const float> narrow = as_floats(features);
      values.assign(narrow.begin(), narrow.end());
    }
    return values;
  }

 private:
  DatasetPtr data_;
  SampleSpec spec_;
};

class WithoutWidth final : public Narrow {
 public:
  using Narrow::Narrow;

  void read(int64_t index, const SampleKey& key, std::span<std::byte> features,
            std::span<std::byte> label) const override {
    std::ranges::transform(read_wide(index, key, features, label), as_floats(features).begin(),
                           [](double x) { return static_cast<float>(x); });
  }
};

class Normalised final : public Narrow {
 public:
  Normalised(DatasetPtr data, Normaliser normaliser)
      : Narrow(std::move(data)), normaliser_(std::move(normaliser)) {}

  void read(int64_t index, const SampleKey& key, std::span<std::byte> features,
            std::span<std::byte> label) const override {
    if (normaliser_.takes_wide())
      return normaliser_.apply(read_wide(index, key, features, label), as_floats(features));
    data().read(index, key, features, label);
    normaliser_.apply(as_floats(features));
  }

 private:
  Normaliser normaliser_;
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

Normaliser::Normaliser(const SampleSpec& spec, FeatureScale scale) : scale_(std::move(scale)) {
  const auto& [mean, std, how] = scale_;
  require_moments(spec, mean, std);
  takes_wide_ = how == Normalising::exact && (spec.wide || !suits_f32(mean, std));
  for (size_t channel = 0; channel < std.size(); ++channel) {
    const auto deviation = static_cast<float>(std[channel]);
    factor_.push_back(1.0F / deviation);
    shift_.push_back(-static_cast<float>(mean[channel]) / deviation);
  }
}

void Normaliser::apply(std::span<float> values) const {
  const size_t plane = values.size() / factor_.size();
  for (size_t channel = 0; channel < factor_.size(); ++channel)
    scale_and_shift(values.subspan(channel * plane, plane), factor_[channel], shift_[channel]);
}

void Normaliser::apply(std::span<const double> values, std::span<float> out) const {
  const size_t channels = scale_.mean.size();
  const size_t plane = values.size() / channels;
  for (size_t channel = 0; channel < channels; ++channel) {
    const double mean = scale_.mean[channel];
    const double std = scale_.std[channel];
    for (size_t i = channel * plane; i < (channel + 1) * plane; ++i)
      out[i] = static_cast<float>((values[i] - mean) / std);
  }
}

DatasetPtr normalised(DatasetPtr data, const std::vector<double>& mean, const std::vector<double>& std,
                      Normalising how) {
  if (how == Normalising::rounded) data = without_width(std::move(data));
  Normaliser normaliser(data->spec(), {mean, std, how});
  return std::make_shared<Normalised>(std::move(data), std::move(normaliser));
}

DatasetPtr without_width(DatasetPtr data) {
  if (!data->spec().wide) return data;
  return std::make_shared<WithoutWidth>(std::move(data));
}

}  // namespace telar
