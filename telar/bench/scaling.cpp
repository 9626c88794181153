#include "telar/bench/scaling.h"

#include <algorithm>
#include <chrono>

#include "telar/core/error.h"
#include "telar/core/suggest.h"
#include "telar/io/atomic_file.h"
#include "telar/io/disk.h"
#include "telar/observe/activity.h"
#include "telar/observe/process.h"
#include "telar/observe/progress_text.h"
#include "telar/strategy/placement.h"
#include "telar/strategy/strategy.h"
#include "telar/train/job_reader.h"
#include "telar/train/job_session.h"
#include "telar/train/run.h"
#include "telar/train/spread_data.h"

namespace telar::bench {

namespace {

namespace fs = std::filesystem;

/// The job if none is given. It takes minutes on two cores.
constexpr const char* kJob =
    "name: scaling\n"
    "model: {name: mlp, options: {hidden: [128]}}\n"
    "data: {source: fashion-mnist, limit: 12000, validation: 0.1667}\n"
    "optimizer: {name: sgd, learning_rate: 0.05}\n"
    "training: {epochs: 40}\n"
    "output: {tensorboard: false}\n";

std::string counted(int number, const std::string& what) {
  return fmt::format("{} {}{}", number, what, number == 1 ? "" : "s");
}

/// One combination of settings.
struct Setting {
  std::string mixing;
  int workers;
  int servers;
  int batch;
  std::vector<std::string> settings = {};
  std::string impossible = {};
  double server_bytes = 0;  ///< of the variables on the server with the most
  double exchanges = 0;     ///< pushes and pulls of all its variables per step, with that server
  Learned learned = {};

  std::string name() const {
    return fmt::format("{}, {}, batches of {}{}", counted(workers, "worker"), counted(servers, "server"),
                       batch, mixing == "shuffled" ? "" : ", by label");
  }
  fs::path folder_name() const {
    return fmt::format("workers-{}-servers-{}-batch-{}-{}", workers, servers, batch, mixing);
  }
};

/// Pushes and pulls per step of the whole run: with rounds those of every worker, otherwise those of the
/// worker that makes the step.
double exchanges_of(const Program& program, int64_t workers) {
  double each = 0;
  for (const ScheduledAction& scheduled : program.kinds.front().schedule)
    if (!scheduled.store.empty()) each += 1 / static_cast<double>(scheduled.every);
  const bool rounds = program.cooperation.kind == Cooperation::Kind::rounds;
  return rounds ? static_cast<double>(workers) * each : each;
}

double fullest_server(const Program& program) {
  int64_t most = 0;
  for (const ServerProgram& server : only_store(program).servers)
    most = std::max(most, placed_bytes(server.pieces));
  return static_cast<double>(most);
}

class Scaling {
 public:
  Scaling(const ScalingOptions& options, const SweepWatch& watch) : options_(options), watch_(watch) {
    require_sense();
    for (const std::string& mixing : options.mixing)
      for (const int servers : options.servers)
        for (const int batch : options.batches)
          for (const int workers : options.workers) settings_.push_back({mixing, workers, servers, batch});
    for (Setting& setting : settings_) prepare(setting);
  }

  Result run() {
    if (watch_.planned) watch_.planned(settings_.size());
    const auto start = std::chrono::steady_clock::now();
    size_t number = 0;
    for (Setting& setting : settings_) {
      ++number;
      if (!setting.impossible.empty()) continue;
      std::string what = fmt::format("{} of {}: {}", number, settings_.size(), setting.name());
      if (number > 1) {
        const std::chrono::duration<double> past = std::chrono::steady_clock::now() - start;
        const auto done = static_cast<double>(number - 1);
        what +=
            fmt::format(" (about {} left)",
                        duration_text(past.count() / done * (static_cast<double>(settings_.size()) - done)));
      }
      train(setting, what);
      if (watch_.measured) watch_.measured(result());
      if (watch_.stop_requested && watch_.stop_requested()) break;
    }
    return result();
  }

 private:
  void require_sense() {
    if (!strategy_type(options_.strategy).uses_servers) {
      throw user_error("strategy '{}' has no parameter servers; choose {}", options_.strategy,
                       one_of(strategy_names([](const StrategyType& type) { return type.uses_servers; })));
    }
    if (!(options_.target > 0 && options_.target < 1))
      throw user_error("the target is {}; it must be an accuracy between 0 and 1", options_.target);
    for (const auto* numbers : {&options_.workers, &options_.servers, &options_.batches})
      if (numbers->empty() || *std::min_element(numbers->begin(), numbers->end()) < 1)
        throw user_error("workers, servers and batches must be lists of numbers, each at least 1");
    job_ = options_.job;
    if (job_.empty()) {
      job_ = options_.folder / "job.yaml";
      make_folder(options_.folder);
      write_file(job_, kJob);
    }
  }

  void prepare(Setting& setting) {
    setting.settings = {"strategy.name=" + options_.strategy,
                        fmt::format("strategy.workers={}", setting.workers),
                        fmt::format("strategy.servers={}", setting.servers),
                        "strategy.server_replicas=1",  // more servers without more copies
                        "strategy.threads=1",
                        fmt::format("training.batch={}", setting.batch),
                        "data.mixing=" + setting.mixing};
    setting.settings.insert(setting.settings.end(), options_.settings.begin(), options_.settings.end());
    setting.learned.name = setting.name();
    Job job = read_job(job_, setting.settings);
    if (!job.data.validates())
      throw user_error("the target is an accuracy on validation samples, but data.validation is 0 in {}",
                       job_.string());
    name_ = job.name;
    epochs_ = job.training.epochs;
    try {
      check_runs(job);
      if (!spec_) spec_ = spec_of_samples(job);
      const Program program = job_program(job, *spec_, nullptr, Costs::estimated);
      setting.server_bytes = fullest_server(program);
      setting.exchanges = exchanges_of(program, setting.workers);
    } catch (const Error& error) {
      setting.impossible = error.what();
    }
  }

  void train(Setting& setting, const std::string& what) {
    TrainingRun run = train_and_tell(
        {.program = options_.program,
         .job = job_,
         .settings = setting.settings,
         .folder = options_.folder / setting.folder_name()},
        what, watch_, [&](const CurvePoint& epoch) { return epoch.accuracy.value_or(0) >= options_.target; });
    if (run.end == TrainingRun::End::failed) {
      setting.impossible = run.failure;
    } else {
      setting.learned.rounds.push_back(std::move(run));
    }
  }

  std::optional<Spread> seconds(const Setting& setting) const {
    if (setting.learned.rounds.empty()) return std::nullopt;
    return seconds_to(setting.learned, kAccuracy, options_.target);
  }

  Result result() const {
    Result result;
    result.experiment = "scaling";
    result.title = fmt::format("{} with {}: time to an accuracy of {} by workers, servers and batch", name_,
                               options_.strategy, options_.target);
    result.settings = {"workers", "servers", "batch", "mixing"};
    result.drawn = time_name();
    std::vector<Scaled> reached;
    std::vector<const Setting*> of_reached;
    for (const Setting& setting : settings_) {
      if (const auto time = seconds(setting)) {
        reached.push_back({setting.name(), setting.workers, *time});
        of_reached.push_back(&setting);
      }
    }
    const std::optional<size_t> spot = sweet_spot(reached);
    for (const Setting& setting : settings_)
      result.rows.push_back(row(setting, spot && of_reached[*spot] == &setting));
    add_remarks(result, reached);
    result.charts = {chart("Time", 0), chart("Compute time", 1), chart("Rate", 2)};
    std::erase_if(result.charts, [](const Chart& one) { return one.curves.empty(); });
    result.others = others_.processors();
    result.environment = environment_;
    return result;
  }

  std::string time_name() const { return fmt::format("to {}", options_.target); }

  /// Epochs up to the target, or all. A training often begins another epoch before it stops.
  double epochs_to(const TrainingCurve& curve) const {
    const auto first = std::find_if(curve.epochs.begin(), curve.epochs.end(), [&](const CurvePoint& epoch) {
      return epoch.accuracy.value_or(0) >= options_.target;
    });
    return static_cast<double>(first == curve.epochs.end() ? curve.epochs.size() : first->epoch);
  }

  ResultRow row(const Setting& setting, bool sweet) const {
    ResultRow row{{std::to_string(setting.workers), std::to_string(setting.servers),
                   std::to_string(setting.batch), setting.mixing},
                  {},
                  setting.impossible};
    if (!setting.impossible.empty()) return row;
    if (setting.learned.rounds.empty()) {
      row.impossible = "the sweep was stopped before this setting";
      return row;
    }
    const TrainingRun& run = setting.learned.rounds.front();
    const auto time = seconds(setting);
    const auto rate = samples_per_second(setting.learned);
    const auto steps = run.figure("steps");
    const auto trained = run.figure("seconds");
    std::optional<double> traffic;
    if (steps && trained && *trained > 0)
      traffic = 1e-6 * setting.server_bytes * setting.exchanges * *steps / *trained;
    row.figures = {{time_name(), "s", time ? std::optional(time->median) : std::nullopt},
                   {"compute time", "s", time ? std::optional(setting.workers * time->median) : std::nullopt},
                   {"epochs", "", epochs_to(run.curve)},
                   {"best accuracy", "", reached_value(setting.learned, kAccuracy)},
                   {"rate", "samples/s", rate ? std::optional(rate->median) : std::nullopt},
                   {"rate min", "samples/s", rate ? std::optional(rate->least) : std::nullopt},
                   {"rate max", "samples/s", rate ? std::optional(rate->most) : std::nullopt},
                   {"staleness", "updates", run.figure("staleness")},
                   {"on a server", "MB", 1e-6 * setting.server_bytes},
                   {"through a server", "MB/s", traffic}};
    if (sweet) row.figures.push_back({"sweet spot", "", 1});
    return row;
  }

  void add_remarks(Result& result, const std::vector<Scaled>& reached) const {
    result.remarks.push_back(sweet_spot_text(reached, options_.target));
    if (const std::string text = mixing_text(); !text.empty()) result.remarks.push_back(text);
    std::string missed;
    for (const Setting& setting : settings_) {
      if (setting.learned.rounds.empty() || seconds(setting)) continue;
      const TrainingRun& run = setting.learned.rounds.front();
      const std::string how = run.end == TrainingRun::End::stopped ? ", stopped" : "";
      missed += fmt::format("{}{} ({:.3f}{})", missed.empty() ? "" : "; ", setting.name(),
                            reached_value(setting.learned, kAccuracy).value_or(0), how);
    }
    if (!missed.empty())
      result.remarks.push_back(
          fmt::format("Not reached in {} epochs (best accuracy in brackets): {}.", epochs_, missed));
    result.remarks.push_back(
        "Compute time: workers × time. Times start at the end of the first step, so they exclude the start of the processes. The accuracy is measured on the validation samples after each epoch, so a time is at most one epoch too long. Through a server: the variables of the server with the most, times their pushes and pulls in the strategy's schedule.");
    const int most = *std::max_element(options_.workers.begin(), options_.workers.end());
    if (most > available_threads()) {
      result.remarks.push_back(fmt::format(
          "Up to {} workers, each with one thread, and the servers share {} cores. Beyond that number, more workers show the cost of waiting and staleness, not the gain from more hosts.",
          most, available_threads()));
    }
  }

  /// The effect of badly mixed data, for the settings where both kinds of data were measured.
  std::string mixing_text() const {
    std::vector<double> ratios;
    int both = 0;
    int missed = 0;
    for (const Setting& bad : settings_) {
      if (bad.mixing == "shuffled" || bad.learned.rounds.empty()) continue;
      const auto good = std::find_if(settings_.begin(), settings_.end(), [&](const Setting& other) {
        return other.mixing == "shuffled" && other.workers == bad.workers && other.servers == bad.servers &&
               other.batch == bad.batch;
      });
      if (good == settings_.end() || !seconds(*good)) continue;
      ++both;
      const auto time = seconds(bad);
      if (time) ratios.push_back(time->median / seconds(*good)->median);
      if (!time) ++missed;
    }
    if (both == 0) return "";
    std::string text =
        fmt::format("Of {} that reached {} with shuffled data, {} did not reach it with badly mixed data",
                    counted(both, "setting"), options_.target, missed);
    if (!ratios.empty()) {
      const Spread spread = Spread::of(ratios);
      text += fmt::format("; the others took {:.2f} times as long (median; {:.2f} to {:.2f})", spread.median,
                          spread.least, spread.most);
    }
    return text + ".";
  }

  /// A chart over the number of workers, with a line for each combination of the other settings. `which`: 0
  /// time, 1 compute time, 2 rate.
  Chart chart(const std::string& title, int which) const {
    Chart chart{which == 2 ? title + " against workers"
                           : fmt::format("{} to {} against workers", title, options_.target),
                {"workers", ""},
                {which == 2 ? "rate" : "time", which == 2 ? "samples/s" : "s"},
                {}};
    for (const Setting& setting : settings_) {
      if (setting.learned.rounds.empty()) continue;
      const auto time = seconds(setting);
      const auto rate = samples_per_second(setting.learned);
      if (which == 2 ? !rate : !time) continue;
      const std::string name = fmt::format("{}, batches of {}{}", counted(setting.servers, "server"),
                                           setting.batch, setting.mixing == "shuffled" ? "" : ", by label");
      const auto workers = static_cast<double>(setting.workers);
      const double value = which == 2 ? rate->median : which == 1 ? workers * time->median : time->median;
      const auto same = std::find_if(chart.curves.begin(), chart.curves.end(),
                                     [&](const Curve& curve) { return curve.name == name; });
      if (same == chart.curves.end()) {
        chart.curves.push_back({name, {{workers, value}}});
      } else {
        same->points.emplace_back(workers, value);
      }
    }
    for (Curve& curve : chart.curves) std::sort(curve.points.begin(), curve.points.end());
    return chart;
  }

  const ScalingOptions& options_;
  const SweepWatch& watch_;
  fs::path job_;
  std::string name_;
  int64_t epochs_ = 0;
  std::optional<SampleSpec> spec_;
  std::vector<Setting> settings_;
  OthersActivity others_;
  Environment environment_ = read_environment();
};

Spread product(const Scaled& one) {
  const auto of = [&](double seconds) { return one.workers * seconds * seconds; };
  return {of(one.seconds.median), of(one.seconds.least), of(one.seconds.most)};
}

}  // namespace

Result measure_scaling(const ScalingOptions& options, const SweepWatch& watch) {
  return Scaling(options, watch).run();
}

std::optional<size_t> sweet_spot(const std::vector<Scaled>& all) {
  if (all.empty()) return std::nullopt;
  const auto least = std::min_element(all.begin(), all.end(), [](const Scaled& a, const Scaled& b) {
    return product(a).median < product(b).median;
  });
  return static_cast<size_t>(least - all.begin());
}

std::string sweet_spot_text(const std::vector<Scaled>& all, double target) {
  const auto spot = sweet_spot(all);
  if (!spot) return fmt::format("No setting reached an accuracy of {}, so there is no sweet spot.", target);
  const Scaled& sweet = all[*spot];
  const auto of_least = [&](auto value) -> const Scaled& {
    return *std::min_element(all.begin(), all.end(),
                             [&](const Scaled& a, const Scaled& b) { return value(a) < value(b); });
  };
  const Scaled& fastest = of_least([](const Scaled& one) { return one.seconds.median; });
  const Scaled& cheapest = of_least([](const Scaled& one) { return one.compute_seconds(); });
  std::string text =
      fmt::format("The sweet spot is {}: {:.3g} s, {:.3g} s of compute time, the smallest product of the two",
                  sweet.name, sweet.seconds.median, sweet.compute_seconds());
  if (&fastest == &sweet && &cheapest == &sweet) {
    text += "; nothing is faster, and nothing is cheaper.";
  } else {
    if (&fastest != &sweet) {
      text += fmt::format("; {} is faster ({:.3g} s) at {:.3g} s of compute time", fastest.name,
                          fastest.seconds.median, fastest.compute_seconds());
    }
    if (&cheapest != &sweet) {
      text += fmt::format("; {} is cheaper ({:.3g} s of compute time) and takes {:.3g} s", cheapest.name,
                          cheapest.compute_seconds(), cheapest.seconds.median);
    }
    text += ".";
  }
  size_t alike = 0;
  std::string names;
  for (const Scaled& other : all) {
    if (&other == &sweet || !product(other).overlaps(product(sweet))) continue;
    if (++alike <= 3) names += (names.empty() ? "" : "; ") + other.name;
  }
  if (alike > 0) {
    text += fmt::format(" These are as good, within the spread of the epochs' rates: {}{}.", names,
                        alike > 3 ? fmt::format(" and {} more", alike - 3) : "");
  }
  return text;
}

}  // namespace telar::bench
