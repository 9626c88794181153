#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "telar/data/dataset.h"

namespace telar {

/// x × scale + shift for each channel of a sample's features, or one of each for all.
struct ChannelScale {
  std::vector<float> scale;  ///< empty: features stay as they are
  std::vector<float> shift;
  void apply(std::span<float> values) const;
};

/// Of (x − mean) / std. Throws Error (user) like normalised().
ChannelScale channel_scale(const SampleSpec& spec, const std::vector<float>& mean,
                           const std::vector<float>& std);

/// Where (x − mean) / std is computed.
enum class Normalising : uint8_t {
  exact,    ///< in f64 where f32 would lose digits
  rounded,  ///< x in f32, as all runs did before 2026-11-27
};

/// (x - mean) / std of every value of f32 features, or wide ones, with one mean and one std per channel (axis
/// 0 of the features), or one pair for all. Its own features are f32. Throws Error (user) for a different
/// number of either, a std that is not above 0, or features of another type.
DatasetPtr normalised(DatasetPtr data, const std::vector<double>& mean, const std::vector<double>& std,
                      Normalising how = Normalising::exact);

/// The same samples, whose features are f32 if they were wide.
DatasetPtr without_width(DatasetPtr data);

}  // namespace telar
