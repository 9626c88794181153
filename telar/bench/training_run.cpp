#include "telar/bench/training_run.h"

#include <fmt/format.h>

#include <chrono>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <thread>

#include "telar/bench/child.h"
#include "telar/bench/environments.h"
#include "telar/core/memory_limit.h"
#include "telar/io/shallow_json.h"

namespace telar::bench {

namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr auto kLook = 200ms;  // long enough not to slow down what is measured
constexpr auto kPatience = 60s;

fs::path log_of(const TrainingStart& start) { return start.folder.string() + ".log"; }

ChildStart child_of(const TrainingStart& start) {
  std::vector<std::string> words;
  if (start.processes > 1) words = mpirun_words(start.processes);
  for (const std::string& word : {start.program, std::string("train"), start.job.string(),
                                  std::string("--quiet"), std::string("--output"), start.folder.string()})
    words.push_back(word);
  for (const std::string& setting : start.settings) {
    words.emplace_back("--set");
    words.push_back(setting);
  }
  words.insert(words.end(), start.options.begin(), start.options.end());
  return {"the training", words, start.environment, log_of(start)};
}

/// The numbers of a JSON object by name; those of nested objects as "outer/inner".
std::map<std::string, double> numbers_in(const fs::path& summary) {
  std::map<std::string, double> numbers;
  std::ifstream file(summary);
  const auto json =
      shallow_json<nlohmann::json>({std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()});
  if (!json.is_object()) return numbers;
  const auto flat = json.flatten();
  for (const auto& [name, value] : flat.items())
    if (value.is_number()) numbers[name.substr(1)] = value.get<double>();
  return numbers;
}

/// Waits for a child, with the callbacks of a TrainingWatch.
class Wait {
 public:
  Wait(const TrainingStart& start, const TrainingWatch& watch)
      : watch_(watch), processes_(start.processes), child_(child_of(start)), curve_(start.folder) {}

  /// The status of the child; empty if it had to be killed.
  std::optional<int> wait() {
    Clock::time_point next_look = Clock::now() + kLook;
    while (true) {
      if (const auto status = child_.ended()) return status;
      std::this_thread::sleep_for(10ms);
      const auto now = Clock::now();
      if (interrupted_ && now - *interrupted_ > kPatience) {
        child_.kill();
        return std::nullopt;
      }
      if (!interrupted_ && watch_.stop_requested && watch_.stop_requested())
        interrupt(TrainingRun::End::stopped);
      if (now < next_look) continue;
      look();
      next_look = Clock::now() + kLook;
    }
  }
  TrainingRun::End reason() const { return reason_; }

 private:
  void interrupt(TrainingRun::End reason) {
    reason_ = reason;
    interrupted_ = Clock::now();
    processes_ > 1 ? child_.interrupt_its_children() : child_.interrupt();
  }

  void look() {
    const CurveWatch::News news = curve_.look();
    if (news.step && watch_.progress) watch_.progress(*news.step);
    for (const CurvePoint& epoch : news.epochs)
      if (!interrupted_ && watch_.enough && watch_.enough(epoch)) interrupt(TrainingRun::End::enough);
  }

  const TrainingWatch& watch_;
  int processes_;
  Child child_;
  CurveWatch curve_;
  TrainingRun::End reason_ = TrainingRun::End::finished;  ///< why it was interrupted
  std::optional<Clock::time_point> interrupted_;
};

}  // namespace

std::optional<double> TrainingRun::figure(const std::string& name) const {
  const auto found = figures.find(name);
  return found == figures.end() ? std::nullopt : std::optional(found->second);
}

TrainingRun run_training(const TrainingStart& start, const TrainingWatch& watch) {
  TrainingRun run;
  try {
    fs::create_directories(fs::absolute(start.folder).parent_path());
    Wait wait(start, watch);
    const std::optional<int> status = wait.wait();
    run.end = wait.reason();
    run.curve = read_curve(start.folder);
    if (!status) {
      run.end = TrainingRun::End::failed;
      run.failure = fmt::format("the training did not end within {} s after a request to stop",
                                std::chrono::seconds(kPatience).count());
    } else if (run.end == TrainingRun::End::finished && *status != 0) {
      run.end = TrainingRun::End::failed;
      run.failure = sentence_in(log_of(start), "the training " + ending_text(*status));
    } else {
      run.figures = numbers_in(start.folder / "summary.json");
    }
  } catch (const std::exception& error) {
    run.end = TrainingRun::End::failed;
    run.failure = as_error(error).what();
  }
  return run;
}

}  // namespace telar::bench
