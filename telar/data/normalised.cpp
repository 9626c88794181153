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
  Normalised(DatasetPtr data, std::vector<float> scale, std::vector<float> shift)
      : data_(std::move(data)), scale_(std::move(scale)), shift_(std::move(shift)) {}

  int64_t size() const override { return data_->size(); }
  const SampleSpec& spec() const override { return data_->spec(); }
  bool random() const override { return data_->random(); }

  void expect(int64_t index) const override { data_->expect(index); }

  void read(int64_t index, const SampleKey& key, std::span<std::byte> features,
            std::span<std::byte> label) const override {
    data_->read(index, key, features, label);
    const std::span<float> values = as_floats(features);
    const size_t plane = values.size() / scale_.size();
    for (size_t channel = 0; channel < scale_.size(); ++channel)
      scale_and_shift(values.subspan(channel * plane, plane), scale_[channel], shift_[channel]);
  }

 private:
  DatasetPtr data_;
  std::vector<float> scale_;
  std::vector<float> shift_;
};

}  // namespace

DatasetPtr normalised(DatasetPtr data, const std::vector<float>& mean, const std::vector<float>& std) {
  const SampleSpec& spec = data->spec();
  if (spec.dtype != DType::f32)
    throw user_error("Only f32 features can be normalised, not {}", name_of(spec.dtype));
  const auto channels = static_cast<size_t>(spec.features[0]);
  if (mean.size() != std.size() || (mean.size() != 1 && mean.size() != channels)) {
    throw user_error(
        "Features {} have {} channels; normalising needs one mean and one std per channel, or one of each for all, not {} means and {} stds",
        spec.features.str(), channels, mean.size(), std.size());
  }
  std::vector<float> scale;
  std::vector<float> shift;
  for (size_t channel = 0; channel < std.size(); ++channel) {
    if (!(std[channel] > 0) || !std::isfinite(std[channel]) || !std::isfinite(mean[channel])) {
      throw user_error(
          "Normalising with mean {} and std {} (channel {}) is not possible; a finite mean and a std above 0 are needed",
          mean[channel], std[channel], channel);
    }
    scale.push_back(1.0F / std[channel]);
    shift.push_back(-mean[channel] / std[channel]);
  }
  return std::make_shared<Normalised>(std::move(data), std::move(scale), std::move(shift));
}

}  // namespace telar
