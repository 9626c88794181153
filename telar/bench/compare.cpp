#include "telar/bench/compare.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "telar/bench/advice.h"
#include "telar/core/error.h"
#include "telar/core/suggest.h"
#include "telar/observe/activity.h"
#include "telar/observe/process.h"
#include "telar/strategy/strategy.h"
#include "telar/strategy/strategy_like.h"
#include "telar/train/job_keys.h"
#include "telar/train/job_reader.h"
#include "telar/train/job_strategy.h"
#include "telar/train/run.h"

namespace telar::bench {

namespace {

constexpr const char* kMpi = "mpi";

/// One of the strategies to compare.
struct Contender {
  std::string strategy;
  int workers = 1;
  std::vector<std::string> settings;
  std::string impossible;  ///< why it cannot train this job here
  Learned learned = {};
  bool stopped = false;

  /// Processes that share batches over MPI are no strategy of their own.
  bool over_mpi() const { return strategy == kMpi; }
  const StrategyType& type() const { return over_mpi() ? data_parallel_type() : strategy_type(strategy); }
  std::string name() const {
    return type().count.empty() ? strategy : fmt::format("{} {}", strategy, workers);
  }
};

/// Parses "mirrored:4".
Contender parse(const std::string& text, int workers) {
  const size_t colon = text.find(':');
  Contender contender{text.substr(0, colon), workers, {}, {}};
  const std::vector<std::string> known = comparable_strategies();
  if (std::find(known.begin(), known.end(), contender.strategy) == known.end()) {
    const std::string near = strategy_like(contender.strategy);
    throw user_error("there is no strategy '{}'; {}choose from {}", contender.strategy,
                     near.empty() ? "" : "did you mean '" + near + "'? ", one_of(known));
  }
  if (colon != std::string::npos) {
    const char* end = text.data() + text.size();
    const auto [stop, code] = std::from_chars(text.data() + colon + 1, end, contender.workers);
    if (code != std::errc() || stop != end || contender.workers < 1 || contender.workers > 1024)
      throw user_error("'{}': after the colon, give the number of workers from 1 to 1024, as in mirrored:4",
                       text);
  }
  if (contender.type().count.empty()) contender.workers = 1;
  return contender;
}

/// The value of the option that is the number of workers. Other options may multiply it.
int64_t count_of(const Contender& contender) {
  const StrategyType& type = contender.type();
  if (contender.over_mpi()) return 1;
  const auto count = std::ranges::find(type.options, type.count, &Option::name);
  const auto least = static_cast<int64_t>(std::max(1.0, count->rule.least));
  const int64_t workers = make_strategy(type.name, {{type.count, least}}).workers().count;
  return std::max(least, least * contender.workers / workers);
}

std::vector<std::string> strategy_settings(const Contender& contender) {
  const StrategyType& type = contender.type();
  std::vector<std::string> settings = {"strategy.name=" + type.name, "strategy.threads=0"};
  if (!type.count.empty()) settings.push_back(fmt::format("strategy.{}={}", type.count, count_of(contender)));
  return settings;
}

/// The contender's settings, and those of the caller's settings that are valid for its strategy.
std::vector<std::string> all_settings(const Contender& contender, const CompareOptions& options) {
  std::vector<std::string> settings = strategy_settings(contender);
  const Job job = read_job(options.job, settings);
  for (const std::string& setting : options.settings) {
    const std::string key = setting.substr(0, setting.find('='));
    const std::vector<JobKey>& keys = job_keys();
    const auto known =
        std::find_if(keys.begin(), keys.end(), [&](const JobKey& one) { return one.path == key; });
    if (key.starts_with("strategy.") && known != keys.end() && !applies(*known, job)) continue;
    settings.push_back(setting);
  }
  return settings;
}

/// The samples that the accuracy is computed on. An epoch covers the samples that are left after validation
/// samples are set aside.
Judges judges_of(const Job& job, const std::vector<Learned>& measured) {
  double training = 0;
  for (const Learned& learned : measured)
    if (!learned.rounds.front().curve.epochs.empty())
      training = learned.rounds.front().curve.epochs[0].samples;
  if (job.data.splits_by_column())
    throw user_error(
        "data.split is column, so the job does not tell how many samples its accuracy is of; choose another");
  const double part = job.data.folds > 0 ? 1 / static_cast<double>(job.data.folds) : job.data.validation;
  return part > 0 ? Judges{std::round(training * part / (1 - part)), true} : Judges{training, false};
}

class Comparison {
 public:
  Comparison(const CompareOptions& options, const SweepWatch& watch) : options_(options), watch_(watch) {
    if (options.rounds < 1) throw user_error("{} rounds; give at least 1", options.rounds);
    if (options.workers < 1) throw user_error("{} workers; give at least 1", options.workers);
    Contender plain = parse(sequential_type().name, 1);
    job_ = read_job(options.job, all_settings(plain, options));  // throws if the job is always invalid
    std::vector<std::string> names = options.strategies;
    if (names.empty()) names = comparable_strategies();
    for (const std::string& name : names) {
      Contender contender = parse(name, options.workers);
      const bool known = std::any_of(contenders_.begin(), contenders_.end(), [&](const Contender& other) {
        return other.name() == contender.name();
      });
      if (!known) contenders_.push_back(std::move(contender));
    }
    for (Contender& contender : contenders_) check(contender);
  }

  Result run() {
    for (int round = 1; round <= options_.rounds; ++round) {
      for (Contender& contender : contenders_) {
        if (!contender.impossible.empty()) continue;
        train(contender, round);
        if (watch_.measured) watch_.measured(result());
        if (stop()) return result();
      }
    }
    return result();
  }

 private:
  bool stop() const { return watch_.stop_requested && watch_.stop_requested(); }

  void check(Contender& contender) {
    try {
      contender.settings = all_settings(contender, options_);
      const Job job = read_job(options_.job, contender.settings);
      // "ways" of 1 worker are 2, the least that there can be.
      if (!contender.over_mpi()) contender.workers = static_cast<int>(workers_of(job.strategy).count);
      check_runs(job);
    } catch (const Error& error) {
      contender.impossible = error.what();
    }
    contender.learned.name = contender.name();
  }

  void train(Contender& contender, int round) {
    std::string name = contender.name();
    std::replace(name.begin(), name.end(), ' ', '-');
    if (options_.rounds > 1) name += fmt::format("-round-{}", round);
    const std::string what =
        options_.rounds > 1 ? fmt::format("{}, round {}", contender.name(), round) : contender.name();
    TrainingRun run = train_and_tell({.program = options_.program,
                                      .job = options_.job,
                                      .settings = contender.settings,
                                      .folder = options_.folder / name,
                                      .processes = contender.over_mpi() ? contender.workers : 1},
                                     what, watch_);
    if (run.end == TrainingRun::End::failed) {
      contender.impossible = run.failure;
    } else if (run.end == TrainingRun::End::stopped) {
      contender.stopped = true;
      // Complete rounds are more informative than a partial one.
      if (contender.learned.rounds.empty()) contender.learned.rounds.push_back(std::move(run));
    } else {
      contender.learned.rounds.push_back(std::move(run));
    }
  }

  /// The strategies that were measured completely at least once.
  std::vector<Learned> measured() const {
    std::vector<Learned> all;
    for (const Contender& one : contenders_) {
      const bool whole = !one.learned.rounds.empty() && one.impossible.empty() &&
                         one.learned.rounds.front().end == TrainingRun::End::finished;
      if (whole) all.push_back(one.learned);
    }
    return all;
  }

  Result result() const {
    Result result;
    result.experiment = "compare";
    result.settings = {"strategy", "workers"};
    const std::vector<Learned> whole = measured();
    const std::optional<Target> common = common_target(whole);
    if (common) result.drawn = time_name(*common);
    result.title = fmt::format("{} under {} strategies: the same samples, the same seed",
                               job_.name.empty() ? options_.job.string() : job_.name, contenders_.size());
    for (const Contender& contender : contenders_)
      result.rows.push_back(row(contender, measure_of(whole), common));
    result.remarks.push_back(advice(whole, judges_of(job_, whole)));
    if (common) {
      result.remarks.push_back(fmt::format(
          "\"{}\": seconds of training until the end of the first epoch with that {}, which all completely measured strategies reached; min and max: the spread of {}.",
          time_name(*common), common->measure->name,
          options_.rounds > 1 ? "the rounds" : "the rates of the epochs"));
    }
    add_remarks(result);
    std::vector<std::pair<std::string, TrainingCurve>> curves;
    for (const Contender& one : contenders_)
      if (!one.learned.rounds.empty()) curves.emplace_back(one.name(), one.learned.rounds.front().curve);
    result.charts = learning_charts(curves);
    result.others = others_.processors();
    result.environment = environment_;
    return result;
  }

  static std::optional<double> training_seconds(const Learned& learned) {
    std::vector<double> seconds;
    for (const TrainingRun& run : learned.rounds)
      if (!run.curve.steps.empty()) seconds.push_back(run.curve.steps.back().seconds);
    return seconds.empty() ? std::nullopt : std::optional(median_of(seconds));
  }

  static std::string time_name(const Target& target) { return "to " + target.str(); }

  ResultRow row(const Contender& contender, const Measure& measure,
                const std::optional<Target>& common) const {
    ResultRow row{{contender.strategy, std::to_string(contender.workers)}, {}, contender.impossible};
    if (!contender.impossible.empty()) return row;
    if (contender.learned.rounds.empty()) {
      row.impossible = "the comparison was stopped before this strategy";
      return row;
    }
    const std::string name = measure.name;
    const Learned& learned = contender.learned;
    const TrainingRun& first = learned.rounds.front();
    const auto seconds = common ? seconds_to(learned, measure, common->value) : std::nullopt;
    const auto rate = samples_per_second(learned);
    const auto part = [](const std::optional<Spread>& spread, double Spread::*value) {
      return spread ? std::optional((*spread).*value) : std::nullopt;
    };
    if (common) {
      const std::string to = time_name(*common);
      row.figures = {{to, "s", part(seconds, &Spread::median)},
                     {to + " min", "s", part(seconds, &Spread::least)},
                     {to + " max", "s", part(seconds, &Spread::most)}};
    }
    for (const Figure& figure : {Figure{"training", "s", training_seconds(learned)},
                                 Figure{"rate", "samples/s", part(rate, &Spread::median)},
                                 Figure{"rate min", "samples/s", part(rate, &Spread::least)},
                                 Figure{"rate max", "samples/s", part(rate, &Spread::most)},
                                 Figure{name, "", final_value(learned, measure)},
                                 Figure{"test " + name, "", first.figure("test_" + name)}})
      row.figures.push_back(figure);
    if (contender.type().uses_servers)
      row.figures.push_back({"staleness", "updates", first.figure("staleness")});
    return row;
  }

  void add_remarks(Result& result) const {
    const int cores = available_threads();
    int most = 0;
    for (const Contender& one : contenders_) most = std::max(most, one.workers);
    if (most > cores) {
      result.remarks.push_back(fmt::format(
          "{} workers share the {} cores of this machine; with separate cores they would be faster.", most,
          cores));
    }
    result.remarks.push_back(
        "Times start at the end of the first step, so they exclude compilation and the start of workers and servers.");
    for (const Contender& one : contenders_)
      if (one.stopped) result.remarks.push_back(fmt::format("{} was stopped before its end.", one.name()));
  }

  const CompareOptions& options_;
  const SweepWatch& watch_;
  Job job_;
  std::vector<Contender> contenders_;
  OthersActivity others_;
  Environment environment_ = read_environment();
};

}  // namespace

std::vector<std::string> comparable_strategies() {
  std::vector<std::string> names = strategy_names();
  names.insert(
      std::ranges::find_if(names, [](const std::string& name) { return strategy_type(name).uses_servers; }),
      kMpi);
  return names;
}

Result compare_strategies(const CompareOptions& options, const SweepWatch& watch) {
  return Comparison(options, watch).run();
}

}  // namespace telar::bench
