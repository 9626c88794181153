#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "telar/data/dataset.h"

namespace telar {

/// Where (x − mean) / std is computed.
enum class Normalising : uint8_t {
  exact,    ///< in f64 where f32 would lose digits
  rounded,  ///< x in f32, as all runs did before 2026-11-27
};

/// One mean and one std per channel (axis 0 of the features), or one pair for all; without any, features stay
/// as they are.
struct FeatureScale {
  std::vector<double> mean = {};
  std::vector<double> std = {};
  Normalising how = Normalising::exact;
};

/// Computes (x − mean) / std of a sample's features.
class Normaliser {
 public:
  /// Throws Error (user) for a different number of means or stds, a std that is not above 0, or features of
  /// another type than f32.
  Normaliser(const SampleSpec& spec, FeatureScale scale);

  /// Whether it takes features as f64: they are wide, or their mean is so large that f32 would lose digits.
  bool takes_wide() const { return takes_wide_; }
  void apply(std::span<float> values) const;
  void apply(std::span<const double> values, std::span<float> out) const;

 private:
  FeatureScale scale_;
  bool takes_wide_;
  std::vector<float> factor_;  ///< of f32 features: x × factor + shift
  std::vector<float> shift_;
};

/// The same samples, normalised. Their features are f32. Throws Error (user) like Normaliser.
DatasetPtr normalised(DatasetPtr data, const std::vector<double>& mean, const std::vector<double>& std,
                      Normalising how = Normalising::exact);

/// The same samples, whose features are f32 if they were wide.
DatasetPtr without_width(DatasetPtr data);

}  // namespace telar
