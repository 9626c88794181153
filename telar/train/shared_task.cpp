#include "telar/train/shared_task.h"

#include <nlohmann/json.hpp>

#include <csignal>
#include <utility>

#include "telar/core/error.h"
#include "telar/train/job_reader.h"
#include "telar/train/job_report.h"

namespace telar {

std::string to_json(const SharedTask& task) {
  nlohmann::json json{{"job", job_text(task.job)},
                      {"resume", task.resume},
                      {"accept_changed_data", task.accept_changed_data},
                      {"check", task.check},
                      {"metrics", task.metrics},
                      {"summary", task.summary},
                      {"quiet", task.quiet}};
  if (task.profile_steps) json["profile_steps"] = *task.profile_steps;
  if (task.comes)
    json["comes"] = {{"processes", task.comes->processes},
                     {"rules", task.comes->rules},
                     {"decision", to_json(task.comes->decision)}};
  return json.dump();
}

SharedTask shared_task_from_json(const std::string& text) {
  try {
    const auto json = nlohmann::json::parse(text);
    SharedTask task{.job = parse_job(json.at("job").get<std::string>(), "the coordinator's job"),
                    .resume = json.at("resume").get<bool>(),
                    .accept_changed_data = json.at("accept_changed_data").get<bool>(),
                    .check = json.at("check").get<bool>(),
                    .metrics = json.at("metrics").get<std::string>(),
                    .summary = json.at("summary").get<std::string>(),
                    .quiet = json.at("quiet").get<bool>()};
    if (json.contains("profile_steps")) task.profile_steps = json.at("profile_steps").get<int64_t>();
    if (json.contains("comes")) {
      const auto& comes = json.at("comes");
      task.comes = {.processes = comes.at("processes").get<int64_t>(),
                    .rules = comes.at("rules").get<int64_t>(),
                    .decision = data_decision_from_json(comes.at("decision").get<std::string>(), "rank 0")};
    }
    return task;
  } catch (const nlohmann::json::exception& mistake) {
    throw user_error("the coordinator sent a job that cannot be parsed: {}", mistake.what());
  }
}

int follow(SharedTask task, const std::vector<std::string>& overrides, Processes& processes,
           ElasticProcesses* elastic, const std::function<int()>& signal, std::optional<Heir> heir,
           const std::function<void(const RunSummary&)>& ended) {
  const Job job = changed_job(task.job, "the coordinator's job", overrides);
  if (task.check) {
    const auto nobody = [](const std::string&) {};
    job_report(job, nobody, nobody, &processes);
    return 0;
  }
  RunOptions options;
  options.resume = task.resume;
  options.accept_changed_data = task.accept_changed_data;
  options.stop_requested = [&signal] { return signal() != 0; };
  options.processes = &processes;
  options.elastic = elastic;
  options.comes = task.comes;
  options.heir = std::move(heir);
  if (task.profile_steps) options.profile.emplace().steps = *task.profile_steps;
  const RunSummary summary = run_job(job, options);
  const int code = exit_code_of(summary, signal(), &processes);
  // A process that came when the run was over is alone, too.
  if (processes.rank() == 0 && ended && !summary.nothing_to_do) ended(summary);
  return code;
}

int exit_code_of(const RunSummary& summary, int signal, Processes* processes) {
  if (summary.outcome == FitOutcome::finished) return summary.not_stored.empty() ? 0 : 1;
  if (!summary.not_stored.empty()) return kStoppedUnstored;
  const std::string own = signal == 0 ? "" : std::to_string(signal);
  return 128 + std::stoi(processes == nullptr ? own : processes->first_text(own));
}

}  // namespace telar
