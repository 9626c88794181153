#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace telar {

/// A window over a sequence that is as long as its mean does not change: ADWIN2 of Bifet and Gavaldà
/// ("Learning from time-changing data with adaptive windowing", 2007).
///
/// The window is split into an older and a newer part at every border between buckets. Its oldest bucket is
/// dropped as long as the means of the parts of some split differ by more than
///
///     ε = √(2/m · σ² · ln(2/δ')) + 2/(3m) · ln(2/δ')
///
/// where 1/m = 1/n₀ + 1/n₁ for parts of n₀ and n₁ values, σ² is the window's variance, δ' = δ / ln n, and n
/// is the window's length. The bound holds for values from 0 to 1, such as error rates.
///
/// Buckets have 1, 2, 4, … values, at most kMost of each size; two of them become one of the next size.
class Adwin {
 public:
  struct Bucket {
    double sum = 0;
    double squares = 0;  ///< Σ (x − mean of the bucket)²
    bool operator==(const Bucket&) const = default;
  };
  static constexpr size_t kMost = 5;

  /// Whether a drift is detected with these values: older values were dropped whose mean was lower than that
  /// of the newer ones. (If it was higher, they are dropped, but a model that improves is no drift.) While
  /// values of before the last drift are in the window, what is dropped belongs to that drift.
  /// `delta`: δ, above 0 and below 1; the probability of a false drift is about this.
  bool add(double delta, std::span<const double> values);

  int64_t size() const;  ///< values in the window
  double mean() const;   ///< of the window, which is not empty

  bool operator==(const Adwin&) const = default;

  // The state, for checkpoints:
  std::vector<std::vector<Bucket>> rows;  ///< row r: buckets of 2^r values, from the oldest
  int64_t since_drift = 0;                ///< values since the last drift, or all
};

}  // namespace telar
