#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace telar {

struct StreamMeanOptions {
  int64_t window = 10'000;  ///< samples
  double fading = 0.9999;   ///< weight of a sample beside the one after it; at least 0, below 1
};

/// Two means of several metrics over samples that arrive in batches, with as many metrics in each batch.
///
/// The windowed mean is that of the newest batches that have at least `window` samples together; of all
/// batches, while there are fewer. They are kept in buckets of at least 1/256 of the window, so the mean may
/// include one bucket more.
///
/// The fading mean (Gama, Sebastião and Rodrigues, "On evaluating stream learning algorithms", 2013) is
/// Σ f^age · value / Σ f^age, where a sample's age is the number of samples in the batches after its own.
class StreamMeans {
 public:
  struct Bucket {
    int64_t samples = 0;
    std::vector<double> sums;
    bool operator==(const Bucket&) const = default;
  };
  static constexpr int64_t kBucketsInWindow = 256;

  /// `sums`: of each metric over the samples of a batch, of which there is at least one.
  void add(const StreamMeanOptions& options, std::span<const double> sums, int64_t samples);

  bool empty() const { return buckets.empty(); }
  /// One value for each metric. Only if there are samples.
  std::vector<double> windowed() const;
  std::vector<double> fading() const;

  bool operator==(const StreamMeans&) const = default;

  // The state, for checkpoints:
  std::vector<Bucket> buckets;      ///< of the window, from the oldest
  std::vector<double> fading_sums;  ///< Σ f^age · value
  double fading_samples = 0;        ///< Σ f^age
};

}  // namespace telar
