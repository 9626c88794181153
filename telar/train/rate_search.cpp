#include "telar/train/rate_search.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "telar/core/error.h"
#include "telar/train/job_model_file.h"
#include "telar/train/job_session.h"
#include "telar/train/job_strategy.h"
#include "telar/train/job_stream.h"
#include "telar/train/job_workers.h"
#include "telar/train/run.h"
#include "telar/train/run_data.h"
#include "telar/train/session_steps.h"
#include "telar/train/trainer.h"

namespace telar {

namespace {

constexpr double kDiverged = 4;         // times the lowest loss
constexpr double kFallen = 0.98;        // of the first losses: less is a fall
constexpr double kAboveNoise = 4;       // deviations of a mean of some steps
constexpr double kLeastOfLowest = 0.1;  // of the rate with the lowest loss, as suggested
constexpr double kMostOfLowest = 0.25;
constexpr double kMostOfHalf = 10;  // of the rate at half of the fall
constexpr int64_t kLeastSteps = 20;
constexpr int64_t kParts = 20;  // of a search: a mean is over about two of them
constexpr int64_t kFirst = 6;   // of these parts: before them, the rates change nothing yet

/// Notes the losses of the steps, and when it is enough.
class Search final : public TrainingObserver {
 public:
  Search(const RateSearchOptions& options, RateSearch& result)
      : options_(options),
        result_(result),
        kept_(1 - 1 / (1 + static_cast<double>(options.steps) / kParts)) {}

  void step_done(const StepReport& report, const TrainingState& /*state*/) override {
    const double loss = report.sums[0] / static_cast<double>(report.samples);
    mean_ = kept_ * mean_ + (1 - kept_) * loss;
    weight_ = kept_ * weight_ + (1 - kept_);
    const RatePoint& point =
        result_.points.emplace_back(RatePoint{report.learning_rate, loss, mean_ / weight_});
    lowest_ = result_.points.size() == 1 ? point.smoothed : std::min(lowest_, point.smoothed);
    if (options_.watch) options_.watch(point, steps());
    if (steps() > options_.steps / 10 && point.smoothed > kDiverged * lowest_)
      result_.end = RateSearch::End::diverged;
  }

  bool is_enough() const { return steps() >= options_.steps || result_.end == RateSearch::End::diverged; }

 private:
  int64_t steps() const { return static_cast<int64_t>(result_.points.size()); }

  const RateSearchOptions& options_;
  RateSearch& result_;
  double kept_;  // of the mean, in each step
  double mean_ = 0;
  double weight_ = 0;
  double lowest_ = 0;
};

void check(const Job& job, const RateSearchOptions& options) {
  if (!(options.from > 0 && options.from < options.to && std::isfinite(options.to)))
    throw user_error("the learning rates go from {} to {}; the first must be above 0, and below the second",
                     options.from, options.to);
  if (options.steps < kLeastSteps)
    throw user_error("the search has {} steps; it needs at least {}", options.steps, kLeastSteps);
  if (uses_servers(job))
    throw user_error(
        "the workers of strategy '{}' have servers; search with one whose workers share each batch: --set strategy=mirrored",
        job.strategy.name);
  if (trains_on_stream(job.data))
    throw user_error(
        "the job trains on a stream; search with samples in files: --set data.source=csv, or another one");
}

/// Of the losses of the first steps.
struct FirstLosses {
  double mean = 0;
  double deviation = 0;  ///< of one step
};

FirstLosses first_losses(const std::vector<RatePoint>& points, int64_t count) {
  FirstLosses first;
  for (int64_t i = 0; i < count; ++i)
    first.mean += points[static_cast<size_t>(i)].loss / static_cast<double>(count);
  double squares = 0;
  for (int64_t i = 0; i < count; ++i)
    squares += std::pow(points[static_cast<size_t>(i)].loss - first.mean, 2);
  first.deviation = std::sqrt(squares / static_cast<double>(count - 1));
  return first;
}

}  // namespace

std::optional<FoundRates> found_rates(const std::vector<RatePoint>& points) {
  const auto count = static_cast<int64_t>(points.size());
  const int64_t part = std::max<int64_t>(1, count / kParts);
  if (count <= kFirst * part) return std::nullopt;
  const FirstLosses first = first_losses(points, kFirst * part);
  // The first means are those of few steps.
  const auto begin = points.begin() + 2 * part;
  const auto lowest = std::min_element(begin, points.end(),
                                       [](const auto& a, const auto& b) { return a.smoothed < b.smoothed; });
  const double noise = first.deviation / std::sqrt(2.0 * static_cast<double>(part));
  if (lowest->smoothed > kFallen * first.mean || lowest->smoothed > first.mean - kAboveNoise * noise)
    return std::nullopt;
  auto half = lowest;
  while (half > begin && half->smoothed < (first.mean + lowest->smoothed) / 2) --half;
  // A loss that is easily learnt may fall to the end.
  const double least = std::min(kLeastOfLowest * lowest->rate, kMostOfHalf * half->rate);
  return FoundRates{.half = half->rate,
                    .lowest = lowest->rate,
                    .suggested = std::clamp(half->rate, least, kMostOfLowest * lowest->rate)};
}

RateSearch search_rate(Job job, const RateSearchOptions& options) {
  check(job, options);
  job = with_settled_model(std::move(job), nullptr);
  const double rate = job.optimizer.learning_rate;
  settle_workers(job, job_workers(job, nullptr));
  RateSearch result;
  result.scale = job.optimizer.learning_rate / rate;
  const RunData opened = open_run_data(
      job, {.stop_requested = options.stop_requested, .say = options.say, .warn = options.warn});
  const auto session = job_session(job, opened.data.spec(), nullptr, {options.say, options.warn});
  if (const auto given = take_given_values(job, opened.data.spec(), *session); given && options.say)
    options.say(given->notes);
  TrainerOptions training = job_batches(job, opened.data.spec(), *session, nullptr);
  training.epochs = options.steps;  // each has a step at least; the search ends them
  training.schedule = {.base = options.from,
                       .shape = ExponentialSchedule{options.to / options.from, options.steps - 1}};
  Search search(options, result);
  Trainer trainer(*session, training);
  const auto stops = [&] {
    if (search.is_enough()) return true;
    if (options.stop_requested && options.stop_requested()) result.end = RateSearch::End::stopped;
    return result.end == RateSearch::End::stopped;
  };
  try {
    trainer.fit(*opened.data.train, nullptr, {&search}, stops);
  } catch (const NotFinite&) {
    if (result.points.empty()) throw;
    result.end = RateSearch::End::diverged;
  }
  if (result.end != RateSearch::End::stopped) result.found = found_rates(result.points);
  return result;
}

}  // namespace telar
