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

}  // namespace

void ChannelScale::apply(std::span<float> values) const {
  if (scale.empty()) return;
  const size_t plane = values.size() / scale.size();
  for (size_t channel = 0; channel < scale.size(); ++channel)
    scale_and_shift(values.subspan(channel * plane, plane), scale[channel], shift[channel]);
}

ChannelScale channel_scale(const SampleSpec& spec, const std::vector<float>& mean,
                           const std::vector<float>& std) {
  if (spec.dtype != DType::f32)
    throw user_error("Only f32 features can be normalised, not {}", name_of(spec.dtype));
  const auto channels = static_cast<size_t>(spec.features[0]);
  if (mean.size() != std.size() || (mean.size() != 1 && mean.size() != channels)) {
    throw user_error(
        "Features {} have {} channels; normalising needs one mean and one std per channel, or one of each for all, not {} means and {} stds",
        spec.features.str(), channels, mean.size(), std.size());
  }
  ChannelScale scaling;
  for (size_t channel = 0; channel < std.size(); ++channel) {
    if (!(std[channel] > 0) || !std::isfinite(std[channel]) || !std::isfinite(mean[channel])) {
      throw user_error(
          "Normalising with mean {} and std {} (channel {}) is not possible; a finite mean and a std above 0 are needed",
          mean[channel], std[channel], channel);
    }
    scaling.scale.push_back(1.0F / std[channel]);
    scaling.shift.push_back(-mean[channel] / std[channel]);
  }
  return scaling;
}

DatasetPtr normalised(DatasetPtr data, const std::vector<float>& mean, const std::vector<float>& std) {
  ChannelScale channels = channel_scale(data->spec(), mean, std);
  return std::make_shared<Normalised>(std::move(data), std::move(channels));
}

}  // namespace telar
