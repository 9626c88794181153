#include "telar/data/moments.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include "telar/core/buffer.h"
#include "telar/data/permutation.h"

namespace telar {

namespace {

/// How values of a channel are added to those that `sums` has.
struct Merge {
  double each;   ///< 1 / number of the new values
  double share;  ///< of the new values among all
  double cross;  ///< values so far × share

  Merge(double before, double added)
      : each(1 / added), share(added / (before + added)), cross(before * share) {}
};

/// Distances are taken from the first value, so that a constant has none.
template <typename T>
void add_values(MomentSums& sums, size_t channel, std::span<const T> values, const Merge& merge) {
  const auto first = static_cast<double>(values[0]);
  double sum = 0;
  double squares = 0;
  for (const T value : values) {
    const double distance = static_cast<double>(value) - first;
    sum += distance;
    squares += distance * distance;
  }
  const double apart = first + sum * merge.each - sums.mean[channel];
  sums.squares[channel] += std::max(0.0, squares - sum * sum * merge.each) + apart * apart * merge.cross;
  sums.mean[channel] += apart * merge.share;
}

/// The same for all channels, of which each has one value: a loop over numbers that follow each other.
template <typename T>
void add_sample(MomentSums& sums, std::span<const T> values, const Merge& merge) {
  for (size_t channel = 0; channel < values.size(); ++channel) {
    const double apart = static_cast<double>(values[channel]) - sums.mean[channel];
    sums.squares[channel] += apart * apart * merge.cross;
    sums.mean[channel] += apart * merge.share;
  }
}

/// Reads samples into their moments.
class MomentReader {
 public:
  explicit MomentReader(const Dataset& data)
      : data_(data),
        features_(data.spec().feature_bytes()),
        label_(data.spec().label_bytes()),
        plane_(static_cast<size_t>(data.spec().features.elements() / data.spec().features[0])) {
    sums_.mean.resize(static_cast<size_t>(data.spec().features[0]));
    sums_.squares.resize(sums_.mean.size());
  }

  void add(int64_t sample) {
    data_.read(sample, {}, {features_.data(), features_.size()}, {label_.data(), label_.size()});
    if (data_.spec().wide) {
      add(std::as_const(features_).as<double>());
    } else {
      add(std::as_const(features_).as<float>());
    }
    sums_.values += static_cast<double>(plane_);
  }

  MomentSums sums() && { return std::move(sums_); }

 private:
  template <typename T>
  void add(std::span<const T> features) {
    const Merge merge(sums_.values, static_cast<double>(plane_));
    if (plane_ == 1) return add_sample(sums_, features, merge);
    for (size_t channel = 0; channel < sums_.mean.size(); ++channel)
      add_values(sums_, channel, features.subspan(channel * plane_, plane_), merge);
  }

  const Dataset& data_;
  Buffer features_;
  Buffer label_;
  size_t plane_;
  MomentSums sums_;
};

}  // namespace

void MomentSums::add(const MomentSums& other, double weight) {
  mean.resize(other.mean.size());
  squares.resize(other.squares.size());
  const double count = weight * other.values;
  const double all = values + count;
  if (count == 0) return;
  for (size_t channel = 0; channel < mean.size(); ++channel) {
    const double apart = other.mean[channel] - mean[channel];
    squares[channel] += weight * other.squares[channel] + apart * apart * values * count / all;
    mean[channel] += apart * (count / all);
  }
  values = all;
}

MomentSums moment_sums(const Dataset& data) {
  MomentReader reader(data);
  for (int64_t i = 0; i < data.size(); ++i) reader.add(i);
  return std::move(reader).sums();
}

MomentSums moment_sums(const Dataset& data, int64_t most, uint64_t seed) {
  if (data.size() <= most) return moment_sums(data);
  MomentReader reader(data);
  std::vector<int64_t> samples(static_cast<size_t>(most));
  Permutation(data.size(), seed, "moments").read(0, samples);
  for (const int64_t sample : samples) reader.add(sample);
  return std::move(reader).sums();
}

Moments moments_of(const MomentSums& sums) {
  Moments moments;
  for (size_t channel = 0; channel < sums.mean.size(); ++channel) {
    const double deviation = std::sqrt(sums.squares[channel] / sums.values);
    if (!(deviation > 0)) moments.constant.push_back(channel);
    moments.mean.push_back(sums.mean[channel]);
    moments.std.push_back(deviation > 0 ? deviation : 1);
  }
  return moments;
}

}  // namespace telar
