#include "telar/data/rounding_loss.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <span>

namespace telar {

void RoundingLoss::add(double number) {
  Sums& sums = sums_[next_];
  next_ = (next_ + 1) % sums_.size();
  const double lost = number - static_cast<float>(number);
  const double apart = number - sums.mean;
  sums.mean += apart / ++sums.count;
  sums.squares += apart * (number - sums.mean);
  sums.lost += lost * lost;
}

std::string RoundingLoss::warning(const std::string& file, const std::string& what,
                                  const std::string& advice) const {
  constexpr double kMostOfDeviation = 0.01;
  for (const Sums& sums : sums_) {
    if (sums.squares == 0 || sums.lost <= kMostOfDeviation * kMostOfDeviation * sums.squares) continue;
    const auto near = static_cast<float>(std::abs(sums.mean));
    return fmt::format(
        "{}: {} have a standard deviation of {:.3g} around {:.3g}, where f32 numbers are {:.3g} apart, so rounding hides how they differ; {}",
        file, what, std::sqrt(sums.squares / sums.count), sums.mean,
        std::nextafter(near, std::numeric_limits<float>::infinity()) - near, advice);
  }
  return "";
}

std::string target_warning(const RoundingLoss& targets, const std::string& file) {
  return targets.warning(file, "the targets", "subtract a constant from them");
}

std::string feature_warning(const Dataset& data, const std::string& file, const std::string& advice) {
  if (!data.spec().wide) return "";
  std::vector<double> features(static_cast<size_t>(data.spec().features.elements()));
  std::vector<std::byte> label(data.spec().label_bytes());
  RoundingLoss loss(features.size());
  for (int64_t i = 0; i < data.size(); ++i) {
    data.read(i, {}, std::as_writable_bytes(std::span(features)), label);
    for (const double feature : features) loss.add(feature);
  }
  return loss.warning(file, "the numbers of a feature", advice);
}

}  // namespace telar
