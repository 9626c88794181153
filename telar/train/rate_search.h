#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "telar/train/job.h"

namespace telar {

/// A step of a search for a learning rate.
struct RatePoint {
  double rate = 0;
  double loss = 0;      ///< mean over the samples of the step, before it
  double smoothed = 0;  ///< mean over about a twentieth of the search, the newest steps counting most
};

struct RateSearchOptions {
  double from = 1e-6;
  double to = 10;
  int64_t steps = 200;
  std::function<bool()> stop_requested;                       ///< asked after each step; empty: never stop
  std::function<void(const std::string&)> say;                ///< receives progress messages; may be empty
  std::function<void(const std::string&)> warn;               ///< receives warnings; may be empty
  std::function<void(const RatePoint&, int64_t step)> watch;  ///< told of each step, from 1; may be empty
};

/// Learning rates that a search has found.
struct FoundRates {
  double half = 0;       ///< at which half of the fall of the loss is made
  double lowest = 0;     ///< at which it is lowest
  double suggested = 0;  ///< the first, raised at most tenfold to a tenth of the second; at most a quarter of
                         ///< the second
};

struct RateSearch {
  std::vector<RatePoint> points;  ///< of the steps, rates ascending
  enum class End : uint8_t {
    all,       ///< all steps were made
    diverged,  ///< the loss was four times its lowest, or not finite
    stopped
  } end = End::all;
  std::optional<FoundRates> found;
  double scale = 1;  ///< the rates are optimizer.learning_rate of the job times this (schedule.scale)
};

/// Of the points of a search; none if the smoothed loss has fallen by less than a fiftieth of the mean of the
/// first losses, or by less than four deviations of such a mean, which batches alone explain.
std::optional<FoundRates> found_rates(const std::vector<RatePoint>& points);

/// Trains a job from its beginning for some steps, whose learning rates grow by equal factors, and looks at
/// the loss: a learning rate range test (Smith, "Cyclical Learning Rates for Training Neural Networks", 2017,
/// section 3.3). It uses the job's strategy, and nothing is written. Throws Error (user) also for a job that
/// trains on a stream, or with parameter servers, and for options out of range.
RateSearch search_rate(Job job, const RateSearchOptions& options);

}  // namespace telar
