#pragma once

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

/// (x - mean) / std of every value of f32 features, with one mean and one std per channel (axis 0 of the
/// features), or one pair for all. Throws Error (user) for a different number of either, a std that is not
/// above 0, or features that are not f32.
DatasetPtr normalised(DatasetPtr data, const std::vector<float>& mean, const std::vector<float>& std);

}  // namespace telar
