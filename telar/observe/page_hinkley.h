#pragma once

#include <cstdint>
#include <span>

namespace telar {

struct PageHinkleyOptions {
  double threshold = 50;     ///< λ: a drift is detected when the statistic exceeds it
  double tolerance = 0.005;  ///< δ: by how much a value may exceed the mean before it counts
  int64_t values = 30;       ///< there is no drift within the first ones
};

/// The test of Page (1954) and Hinkley (1971) for a rise of the mean of a sequence, as Gama et al. describe
/// it ("A survey on concept drift adaptation", 2014):
///
///     m_t = Σ (x_i − x̄_i − δ), where x̄_i is the mean of the values up to x_i
///     drift: m_t − min(m_1 … m_t) > λ
///
/// After a drift it begins again.
class PageHinkley {
 public:
  /// Whether a drift is detected with one of these values.
  bool add(const PageHinkleyOptions& options, std::span<const double> added);

  bool operator==(const PageHinkley&) const = default;

  // The state, for checkpoints:
  int64_t values = 0;
  double mean = 0;
  double sum = 0;    ///< m_t
  double least = 0;  ///< min(m_1 … m_t)
};

}  // namespace telar
