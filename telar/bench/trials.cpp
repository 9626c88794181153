#include "telar/bench/trials.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <exception>
#include <mutex>
#include <numeric>
#include <set>
#include <thread>

#include "telar/core/error.h"
#include "telar/core/random.h"
#include "telar/io/atomic_file.h"
#include "telar/io/disk.h"
#include "telar/nn/metrics.h"
#include "telar/observe/activity.h"
#include "telar/observe/process.h"
#include "telar/train/job_devices.h"
#include "telar/train/job_memory.h"
#include "telar/train/job_reader.h"
#include "telar/train/job_strategy.h"
#include "telar/train/run.h"
#include "telar/train/spread_data.h"

namespace telar::bench {

namespace {

namespace fs = std::filesystem;

constexpr int64_t kMostTrials = 10'000;
constexpr size_t kCurves = 8;    // in a chart
constexpr double kDecade = 10;   // from here on a range is logarithmic
constexpr int64_t kShare = 2;    // of the memory that may be used, for all trainings at a time: one in two
constexpr uint64_t kStream = 0;  // of random numbers

std::optional<double> number_in(const std::string& text) {
  double number = 0;
  const auto [stop, code] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (code != std::errc() || stop != text.data() + text.size() || !std::isfinite(number)) return std::nullopt;
  return number;
}

/// Divides at commas outside of brackets, braces and quotes.
std::vector<std::string> list_of(const std::string& text) {
  std::vector<std::string> parts(1);
  int depth = 0;
  char quote = 0;
  for (const char c : text) {
    if (quote != 0)
      quote = c == quote ? '\0' : quote;
    else if (c == '"' || c == '\'')
      quote = c;
    else if (c == '[' || c == '{')
      ++depth;
    else if (c == ']' || c == '}')
      --depth;
    if (c == ',' && depth == 0 && quote == 0)
      parts.emplace_back();
    else if (c != ' ' || !parts.back().empty())
      parts.back() += c;
  }
  return parts;
}

struct Trial {
  std::vector<std::string> values;  ///< one per varied key
  std::vector<std::string> settings;
  fs::path folder;
  std::string impossible;  ///< why it has no result
  TrainingRun run = {};
  bool ended = false;
};

class Trials {
 public:
  Trials(const TrialOptions& options, const SweepWatch& watch) : options_(options), watch_(watch) {
    if (options.vary.empty())
      throw user_error(
          "there is nothing to vary; give at least one key with its values, as in --vary optimizer.learning_rate=0.001,0.01");
    for (const std::string& text : options.vary) {
      varied_.push_back(parse_varied(text));
      const auto same = std::ranges::count(varied_, varied_.back().key, &VariedKey::key);
      if (same > 1)
        throw user_error("{} is varied twice; give all of its values at once", varied_.back().key);
    }
    choose();
    asked_ = asked();
    if (options.resume) require_same_as_before();
    for (Trial& trial : trials_) prepare(trial);
    if (at_once_ == 0) throw user_error("no trial can be trained: {}", trials_.front().impossible);
  }

  Result run() {
    if (watch_.planned) watch_.planned(trials_.size());
    make_folder(options_.folder);
    write_file(asked_file(), asked_);
    std::vector<std::thread> crew;
    for (int64_t i = 0; i < at_once_; ++i) crew.emplace_back([this] { work(); });
    for (std::thread& thread : crew) thread.join();
    if (failure_) std::rethrow_exception(failure_);
    return result();
  }

 private:
  bool stop() const { return watch_.stop_requested && watch_.stop_requested(); }

  bool has_range() const {
    return std::ranges::any_of(varied_, [](const VariedKey& one) { return one.values.empty(); });
  }

  /// The number of all combinations, at most kMostTrials + 1.
  int64_t combinations() const {
    int64_t count = 1;
    for (const VariedKey& one : varied_)
      count = std::min(kMostTrials + 1, count * static_cast<int64_t>(one.values.size()));
    return count;
  }

  void choose() {
    if (options_.trials == 0 && has_range())
      throw user_error("a range has no end of values; say with --trials how many are drawn");
    if (!has_range() && (options_.trials == 0 ? combinations() : options_.trials) > kMostTrials)
      throw user_error("these are more than {} trials; draw some of them with --trials", kMostTrials);
    has_range() || combinations() > kMostTrials ? draw() : combine();
  }

  /// All combinations, or some of them; the last key changes fastest.
  void combine() {
    const int64_t all = combinations();
    std::vector<int64_t> chosen(static_cast<size_t>(all));
    std::iota(chosen.begin(), chosen.end(), 0);
    if (options_.trials > 0) {
      shuffle(chosen);
      chosen.resize(static_cast<size_t>(std::min(all, options_.trials)));
    }
    for (int64_t place : chosen) {
      Trial trial{std::vector<std::string>(varied_.size())};
      for (size_t key = varied_.size(); key-- > 0;) {
        const auto count = static_cast<int64_t>(varied_[key].values.size());
        trial.values[key] = varied_[key].values[static_cast<size_t>(place % count)];
        place /= count;
      }
      trials_.push_back(std::move(trial));
    }
  }

  void draw() {
    const auto count = static_cast<size_t>(options_.trials);
    trials_.assign(count, Trial{std::vector<std::string>(varied_.size())});
    for (size_t key = 0; key < varied_.size(); ++key) {
      std::vector<int64_t> parts(count);
      std::iota(parts.begin(), parts.end(), 0);
      shuffle(parts);
      for (size_t i = 0; i < count; ++i)
        trials_[i].values[key] =
            varied_[key].at((static_cast<double>(parts[i]) + random_.uniform()) / static_cast<double>(count));
    }
    std::set<std::vector<std::string>> seen;
    repeated_ = std::erase_if(trials_, [&](const Trial& trial) { return !seen.insert(trial.values).second; });
  }

  void shuffle(std::vector<int64_t>& numbers) {
    for (size_t i = numbers.size(); i > 1; --i)
      std::swap(numbers[i - 1], numbers[random_.below(static_cast<uint32_t>(i))]);
  }

  /// Throws Error (user) for values that no job has.
  void prepare(Trial& trial) {
    const auto number = static_cast<size_t>(&trial - trials_.data()) + 1;
    trial.folder = options_.folder / fmt::format("trial-{:03}", number);
    trial.settings = options_.settings;
    for (size_t key = 0; key < varied_.size(); ++key)
      trial.settings.push_back(fmt::format("{}={}", varied_[key].key, trial.values[key]));
    Job job = read_job(options_.job, trial.settings);
    if (!job.data.validates())
      throw user_error(
          "the job has no validation samples, by which trials are compared (test samples would not be independent of the choice any more); give data.validation, as in --set data.validation=0.1");
    const std::string metric = job.training.early_stopping_metric;
    if (!metric_.empty() && metric_ != metric)
      throw user_error("training.early_stopping.metric decides between trials, and cannot be varied");
    metric_ = metric;
    judges_ = std::min(judges_, judging_part(job.data));
    try {
      check_runs(job);
    } catch (const Error& error) {
      trial.impossible = error.what();
      return;
    }
    const int64_t workers = workers_of(job.strategy).count;
    const int64_t cores = available_threads();
    const int64_t possible = std::min(
        std::ssize(trials_), options_.at_once > 0 ? options_.at_once : most_at_once(job, cores / workers));
    at_once_ = at_once_ == 0 ? possible : std::min(at_once_, possible);
    if (job.strategy.threads == std::vector<int64_t>{0} && !has_gpu(job.strategy))
      trial.settings.push_back(
          fmt::format("strategy.threads={}", std::max<int64_t>(1, cores / possible / workers)));
  }

  static int64_t most_at_once(Job job, int64_t cores) {
    if (has_gpu(job.strategy)) return 1;
    const SampleSpec spec = spec_of_samples(job);
    const int64_t each = std::max<int64_t>(1, job_memory(job, spec).total());
    const auto usable = static_cast<int64_t>(usable_memory_bytes());
    const int64_t most = std::min<int64_t>(cores, kMostTrainings);
    return std::max<int64_t>(1, usable == 0 ? most : std::min(most, usable / kShare / each));
  }

  static double judging_part(const DataJob& data) {
    if (data.splits_by_column()) return 0;  // the job does not tell
    return data.folds > 0 ? 1 / static_cast<double>(data.folds) : data.validation;
  }

  /// The job and the values of all trials.
  std::string asked() const {
    std::string text = job_text(read_job(options_.job, options_.settings));
    for (const Trial& trial : trials_) text += "# " + text_of(trial) + "\n";
    return text;
  }

  /// What the trials in the folder were asked for must be the same: they keep their results.
  void require_same_as_before() const {
    const fs::path file = asked_file();
    if (!fs::exists(file))
      throw user_error("{} has no trials to go on with ({} is missing)", options_.folder.string(),
                       file.string());
    const Bytes before = read_file(file);
    if (std::string(before.begin(), before.end()) != asked_)
      throw user_error(
          "the trials in {} were begun with another job or other values ({} has them); resume with the options of before, or choose another folder",
          options_.folder.string(), file.string());
  }

  fs::path asked_file() const { return options_.folder / "asked.yaml"; }

  /// What each thread does: trains trials until none is left.
  void work() {
    while (true) {
      Trial* trial = nullptr;
      {
        const std::lock_guard lock(mutex_);
        while (next_ < trials_.size() && !trials_[next_].impossible.empty()) ++next_;
        if (next_ == trials_.size() || stop() || failure_) return;
        trial = &trials_[next_++];
      }
      TrainingStart start{.program = options_.program,
                          .job = options_.job,
                          .settings = trial->settings,
                          .folder = trial->folder};
      if (options_.resume && fs::exists(trial->folder / "job.yaml")) start.options = {"--resume"};
      TrainingRun run =
          run_training(start, {.stop_requested = watch_.stop_requested, .progress = {}, .enough = {}});
      const std::lock_guard lock(mutex_);
      try {
        ended(*trial, std::move(run));
      } catch (...) {
        failure_ = std::current_exception();  // a file that cannot be written
      }
    }
  }

  void ended(Trial& trial, TrainingRun run) {
    trial.ended = true;
    if (run.end == TrainingRun::End::failed) trial.impossible = run.failure;
    trial.run = std::move(run);
    if (watch_.began)
      watch_.began(fmt::format("trial {} of {}: {}", number_of(trial), trials_.size(), text_of(trial)));
    if (watch_.ended) watch_.ended(outcome_of(trial));
    if (watch_.measured) watch_.measured(result());
    const auto left =
        std::ranges::count_if(trials_, [](const Trial& one) { return !one.ended && one.impossible.empty(); });
    if (watch_.began && left > 0 && !stop())
      watch_.began(fmt::format("{} of {} trials are left", left, trials_.size()));
  }

  size_t number_of(const Trial& trial) const { return static_cast<size_t>(&trial - trials_.data()) + 1; }

  /// "learning_rate 0.01, hidden [64]".
  std::string text_of(const Trial& trial) const {
    std::string text;
    for (size_t key = 0; key < varied_.size(); ++key)
      text += fmt::format("{}{} {}", key == 0 ? "" : ", ", name_of(key), trial.values[key]);
    return text;
  }

  /// The last part of a key, if it is the only one of that name.
  std::string name_of(size_t key) const {
    const auto last = [](const VariedKey& one) { return one.key.substr(one.key.rfind('.') + 1); };
    const std::string name = last(varied_[key]);
    return std::ranges::count_if(varied_, [&](const VariedKey& one) { return last(one) == name; }) == 1
               ? name
               : varied_[key].key;
  }

  std::string outcome_of(const Trial& trial) const {
    if (!trial.impossible.empty()) return "failed: " + trial.impossible;
    const CurvePoint* best = best_of(trial);
    const std::string how = trial.run.end == TrainingRun::End::stopped ? "stopped" : "done";
    return best == nullptr ? how
                           : fmt::format("{}, best validation {} {:.4f} after epoch {} of {}", how, metric_,
                                         value_of(*best), best->epoch, trial.run.curve.epochs.back().epoch);
  }

  double value_of(const CurvePoint& epoch) const { return epoch.validated.at(metric_); }
  bool better(double a, double b) const { return lower_is_better(metric_) ? a < b : a > b; }

  /// Null if no epoch has a figure.
  const CurvePoint* best_of(const Trial& trial) const {
    const CurvePoint* best = nullptr;
    if (!trial.impossible.empty()) return best;
    for (const CurvePoint& epoch : trial.run.curve.epochs)
      if (epoch.validated.contains(metric_) && (best == nullptr || better(value_of(epoch), value_of(*best))))
        best = &epoch;
    return best;
  }

  /// The trials with a figure, best first.
  std::vector<const Trial*> ranking() const {
    std::vector<const Trial*> order;
    for (const Trial& trial : trials_)
      if (best_of(trial) != nullptr) order.push_back(&trial);
    std::ranges::stable_sort(order, [&](const Trial* a, const Trial* b) {
      return better(value_of(*best_of(*a)), value_of(*best_of(*b)));
    });
    return order;
  }

  Result result() const {
    Result result;
    result.experiment = "sweep";
    result.title = fmt::format("{}: {} trials", options_.job.string(), trials_.size());
    for (size_t key = 0; key < varied_.size(); ++key) result.settings.push_back(name_of(key));
    result.drawn = "validation " + metric_;
    const std::vector<const Trial*> order = ranking();
    for (const Trial* trial : order) {
      const CurvePoint& best = *best_of(*trial);
      result.rows.push_back({trial->values,
                             {},
                             {},
                             {{result.drawn, "", value_of(best)},
                              {"epoch", "", static_cast<double>(best.epoch)},
                              {"training", "s", trial->run.curve.epochs.back().seconds},
                              {"trial", "", static_cast<double>(number_of(*trial))}}});
    }
    for (const Trial& trial : trials_)
      if (best_of(trial) == nullptr) result.rows.push_back({trial.values, {}, why_none(trial)});
    add_remarks(result, order);
    std::vector<std::pair<std::string, TrainingCurve>> curves;
    for (size_t i = 0; i < std::min(kCurves, order.size()); ++i)
      curves.emplace_back(text_of(*order[i]), order[i]->run.curve);
    result.charts = learning_charts(curves);
    result.others = others_.processors();
    result.environment = environment_;
    return result;
  }

  std::string why_none(const Trial& trial) const {
    if (!trial.impossible.empty()) return trial.impossible;
    if (!trial.ended) return "the sweep was stopped before this trial";
    return fmt::format("no epoch of it has a finite validation {}", metric_);
  }

  void add_remarks(Result& result, const std::vector<const Trial*>& order) const {
    if (order.empty()) return;
    const Trial& first = *order.front();
    const CurvePoint& best = *best_of(first);
    std::string sets;
    for (size_t key = 0; key < varied_.size(); ++key)
      sets += fmt::format(" --set \"{}={}\"", varied_[key].key, first.values[key]);
    result.remarks.push_back(
        fmt::format("The best:{}, with a validation {} of {:.4f} after epoch {}; its run is {}.", sets,
                    metric_, value_of(best), best.epoch, first.folder.string()));
    if (metric_ == "accuracy" && judges_ > 0 && judges_ < 1 && !first.run.curve.epochs.empty()) {
      const double samples = first.run.curve.epochs.front().samples * judges_ / (1 - judges_);
      const double equal = chance(value_of(best), {samples, true});
      const auto like_it = std::ranges::count_if(
          order, [&](const Trial* one) { return value_of(best) - value_of(*best_of(*one)) < equal; });
      if (like_it > 1)
        result.remarks.push_back(fmt::format(
            "{} other trials are within {:.4f} of it: with about {:.0f} validation samples they may differ by chance.",
            like_it - 1, equal, samples));
    }
    for (size_t key = 0; key < varied_.size(); ++key) note_edge(result, key, order);
    const auto stopped = std::ranges::count_if(
        trials_, [](const Trial& one) { return one.run.end == TrainingRun::End::stopped; });
    if (repeated_ > 0)
      result.remarks.push_back(
          fmt::format("{} draws had the values of others, and are tried once.", repeated_));
    if (stopped > 0)
      result.remarks.push_back(fmt::format(
          "{} trials were stopped before their end; the same command with --resume goes on.", stopped));
  }

  /// A best value at an end of those that were tried says that a better one may be beyond it.
  void note_edge(Result& result, size_t key, const std::vector<const Trial*>& order) const {
    std::vector<double> tried;
    for (const Trial* trial : order) {
      const auto number = number_in(trial->values[key]);
      if (!number) return;
      tried.push_back(*number);
    }
    const auto [least, most] = std::ranges::minmax(tried);
    if (least == most || (tried.front() != least && tried.front() != most)) return;
    result.remarks.push_back(
        fmt::format("The best {} is the {} of those that were tried: beyond it may be a better one.",
                    varied_[key].key, tried.front() == least ? "least" : "greatest"));
  }

  const TrialOptions& options_;
  const SweepWatch& watch_;
  std::vector<VariedKey> varied_;
  std::vector<Trial> trials_;
  std::string metric_;
  std::string asked_;
  size_t repeated_ = 0;  ///< draws that another one had made
  double judges_ = 1;    ///< the part of the samples that judge, if the job tells
  int64_t at_once_ = 0;
  RandomSequence random_{static_cast<uint64_t>(options_.seed), kStream};
  OthersActivity others_;
  Environment environment_ = read_environment();

  std::mutex mutex_;  // of what follows, and of the trials
  size_t next_ = 0;
  std::exception_ptr failure_;
};

}  // namespace

std::string VariedKey::at(double position) const {
  if (!values.empty()) return values[static_cast<size_t>(position * static_cast<double>(values.size()))];
  const bool by_factors = least > 0 && most / least >= kDecade;
  if (whole) {
    const double end = most + 1;
    const double drawn =
        by_factors ? least * std::pow(end / least, position) : least + position * (end - least);
    return fmt::format("{:.0f}", std::min(most, std::floor(drawn)));
  }
  const double drawn =
      by_factors ? least * std::pow(most / least, position) : least + position * (most - least);
  const double near = by_factors ? drawn / 100 : (most - least) / 500;
  std::string text;
  for (int digits = 3; digits <= 17; ++digits) {
    text = fmt::format("{:.{}g}", drawn, digits);
    const double value = number_in(text).value_or(most);
    if (value >= least && value <= most && std::abs(value - drawn) <= near) break;
  }
  return text;
}

VariedKey parse_varied(const std::string& text) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0 || equals + 1 == text.size())
    throw user_error(
        "'{}' has no values; write KEY=VALUE,VALUE,… or KEY=LEAST..MOST, as in optimizer.learning_rate=1e-4..0.1",
        text);
  VariedKey varied{text.substr(0, equals), {}};
  const std::string values = text.substr(equals + 1);
  const size_t dots = values.find("..");
  const std::string ends[] = {values.substr(0, dots),
                              dots == std::string::npos ? "" : values.substr(dots + 2)};
  const auto least = number_in(ends[0]);
  const auto most = number_in(ends[1]);
  if (least && most) {
    if (*least >= *most)
      throw user_error("'{}' is no range; write the smaller number first, as in {}=1e-4..0.1", text,
                       varied.key);
    varied.least = *least;
    varied.most = *most;
    varied.whole = std::ranges::all_of(ends, [](const std::string& end) {
      return end.find_first_not_of("-0123456789") == std::string::npos;
    });
    return varied;
  }
  varied.values = list_of(values);
  for (const std::string& value : varied.values) {
    if (value.empty()) throw user_error("'{}' has an empty value; commas stand between values", text);
    const auto same = [&](const std::string& other) {
      return other == value || (number_in(value) && number_in(other) == number_in(value));
    };
    if (std::ranges::count_if(varied.values, same) > 1) throw user_error("'{}' has {} twice", text, value);
  }
  return varied;
}

Result try_values(const TrialOptions& options, const SweepWatch& watch) {
  if (options.trials < 0 || options.trials > kMostTrials)
    throw user_error("{} trials; give 1 to {}", options.trials, kMostTrials);
  return Trials(options, watch).run();
}

}  // namespace telar::bench
