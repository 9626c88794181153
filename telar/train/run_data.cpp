#include "telar/train/run_data.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "telar/core/error.h"
#include "telar/data/tables/label_sums.h"
#include "telar/observe/process.h"
#include "telar/train/job_memory.h"
#include "telar/train/job_reader.h"
#include "telar/train/job_report.h"
#include "telar/train/job_strategy.h"
#include "telar/train/job_stream.h"
#include "telar/train/run_folder.h"
#include "telar/train/spread_data.h"

namespace telar {

namespace {

class DataOpening {
 public:
  DataOpening(Job& job, const RunOptions& options) : job_(job), options_(options) {}

  RunData run() {
    keep_reading();
    data_.data = opened();
    balance_classes();
    find_target_mean();
    say_remarks();
    if (leads() && options_.warn) std::ranges::for_each(data_.data.notes, options_.warn);
    return std::move(data_);
  }

 private:
  using Clock = std::chrono::steady_clock;

  /// A run that is resumed reads samples as before: by the same rules, with the means and deviations that its
  /// weights fit. A new one has the newest rules.
  void keep_reading() {
    job_.data.rules = options_.comes ? options_.comes->rules : kNewestRules;
    if (!options_.resume) return;
    std::string text = leads() ? reading_before() : "";
    if (options_.processes != nullptr) options_.processes->broadcast(text);
    if (text.empty()) return;
    const auto kept = nlohmann::json::parse(text);
    job_.data.rules = kept.at("rules").get<int64_t>();
    if (!job_.data.normalise || !job_.data.mean.empty()) return;
    job_.data.mean = kept.at("mean").get<std::vector<double>>();
    job_.data.std = kept.at("std").get<std::vector<double>>();
  }

  /// Empty if there is no run yet, or none that can be resumed, which is refused later by all processes.
  std::string reading_before() const {
    const auto folder = RunFolder::find(job_);
    if (!folder || !std::filesystem::exists(*folder / "samples.json")) return "";
    try {
      const DataJob before = read_job(*folder / "job.yaml").data;
      return nlohmann::json{{"rules", before.rules}, {"mean", before.mean}, {"std", before.std}}.dump();
    } catch (const Error&) {
      return "";
    }
  }

  /// Refuses a job that is too large for this machine; before the samples are read, if the job alone says so.
  Datasets opened() {
    const int processes = options_.processes == nullptr ? 1 : options_.processes->size();
    const auto known = spec_without_files(job_.data);
    if (known) require_memory(job_, *known, processes);
    Datasets data = checked_data();
    if (!known) require_memory(job_, data.spec(), processes);
    return data;
  }

  Datasets checked_data() {
    const SampleChecks checks = sample_checks();
    if (trains_on_stream(job_.data)) return opened_stream(checks);
    if (job_.data.spread) {
      SpreadDatasets spread = open_spread_datasets(job_, &checks, options_.processes);
      data_.record = std::move(spread.record);
      return std::move(spread.data);
    }
    if (options_.comes)
      return open_datasets_as_decided(job_.data, seed(), options_.comes->decision, checks.threads);
    const bool alone = options_.processes == nullptr;
    if (alone && !uses_servers(job_)) return open_datasets(job_.data, seed(), &checks);
    DecidedDatasets decided = alone ? open_and_decide(job_.data, seed(), checks)
                                    : open_datasets_together(job_.data, seed(), checks, *options_.processes);
    data_.decision = std::move(decided.decision);
    return std::move(decided.data);
  }

  Datasets opened_stream(const SampleChecks& checks) {
    Datasets data;
    data.test = open_test_dataset(job_.data, seed(), leads() ? &checks : nullptr);
    const std::optional<Job> before = job_before();
    StreamOpening opening{.processes = options_.processes,
                          .before = before ? &before->data : nullptr,
                          .warn = leads() ? options_.warn : nullptr};
    // Over several processes a read that stops in one of them would leave the others in the step.
    if (options_.processes == nullptr) opening.stop_requested = options_.stop_requested;
    data.stream = open_job_stream(job_, opening);
    if (data.test != nullptr) require_alike(data.stream->spec(), data.test->spec());
    if (uses_servers(job_)) data_.decision = decide_on_stream(job_.data);
    return data;
  }

  /// Of the run that is resumed.
  std::optional<Job> job_before() const {
    const auto folder = options_.resume && leads() ? RunFolder::find(job_) : std::nullopt;
    return folder ? std::optional(read_job(*folder / "job.yaml")) : std::nullopt;
  }

  void balance_classes() {
    LossJob& loss = job_.loss;
    if (!loss.balanced || !loss.class_weights.empty() || data_.data.spec().classes == 0) return;
    if (data_.data.spec().labels_positions())
      throw user_error(
          "loss.balanced weighs samples by their class, but a sample of these data has {} labels; leave it out, or give loss.class_weights",
          data_.data.spec().labels.elements());
    const std::vector<int64_t> counts = class_counts(*data_.data.train);
    const auto known = static_cast<double>(counts.size() - std::ranges::count(counts, 0));
    for (const int64_t count : counts)
      loss.class_weights.push_back(count == 0 ? 0
                                              : static_cast<double>(data_.data.train->size()) /
                                                    (known * static_cast<double>(count)));
  }

  void find_target_mean() {
    const Datasets& data = data_.data;
    const auto& metrics = job_.training.metrics;
    if (std::ranges::find(metrics, "r2") == metrics.end() || !job_.data.target_mean.empty()) return;
    if (data.train == nullptr || data.spec().classes > 0) return;
    std::string means = nlohmann::json(target_means(*data.train)).dump();
    if (options_.processes != nullptr) options_.processes->broadcast(means);  // those of rank 0 for all
    job_.data.target_mean = nlohmann::json::parse(means).get<std::vector<double>>();
  }

  /// Of the files of this process, or of all processes if each has its own.
  void say_remarks() const {
    if (!leads() && !job_.data.spread) return;
    std::string text = data_.data.columns_text() + data_remarks(job_.data, options_.processes);
    if (!leads() || !options_.say || text.empty()) return;
    text.pop_back();  // the end of the last line
    options_.say(text);
  }

  SampleChecks sample_checks() const {
    SampleChecks checks;
    checks.threads = available_threads();
    checks.warn = options_.warn;
    checks.watch = [this, next = Clock::now()](const std::string& progress) mutable {
      if (Clock::now() >= next) {
        if (options_.say) options_.say(progress);
        next = Clock::now() + std::chrono::seconds(5);
      }
      return !options_.stop_requested || !options_.stop_requested();
    };
    return checks;
  }

  bool leads() const { return telar::leads(options_); }
  uint64_t seed() const { return static_cast<uint64_t>(job_.training.seed); }

  Job& job_;
  const RunOptions& options_;
  RunData data_;
};

}  // namespace

RunData open_run_data(Job& job, const RunOptions& options) { return DataOpening(job, options).run(); }

}  // namespace telar
