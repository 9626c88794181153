#include <fmt/format.h>
#include <signal.h>

#include <array>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <optional>
#include <sstream>
#include <string_view>
#include <utility>

#include "telar/core/error.h"
#include "telar/launch/child_engine.h"
#include "telar/launch/engines.h"
#include "telar/launch/shell_word.h"

namespace telar {

namespace {

std::optional<std::string> variable(const char* name) {
  const char* value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): nobody changes it
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

/// What a program of Slurm prints. `words` are of Slurm's own making: no quotes.
std::string output_of(const std::string& command) {
  FILE* pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) throw run_error("`{}` cannot be started", command);
  std::string text;
  std::array<char, 4096> bytes{};
  for (size_t count = 0; (count = std::fread(bytes.data(), 1, bytes.size(), pipe)) > 0;)
    text.append(bytes.data(), count);
  if (::pclose(pipe) != 0) throw run_error("`{}` has failed", command);
  return text;
}

/// SLURM_TASKS_PER_NODE as a number for each node: "2(x3),1" is 2, 2, 2, 1.
std::vector<int> tasks_of_nodes(const std::string& text) {
  std::vector<int> tasks;
  std::istringstream words(text);
  for (std::string word; std::getline(words, word, ',');) {
    int count = 0;
    int nodes = 1;
    const size_t times = word.find("(x");
    std::from_chars(word.data(), word.data() + word.size(), count);
    if (times != std::string::npos)
      std::from_chars(word.data() + times + 2, word.data() + word.size(), nodes);
    tasks.insert(tasks.end(), static_cast<size_t>(nodes), count);
  }
  return tasks;
}

/// "NodeAddr" of a line of `scontrol show node --oneliner`.
std::string field(const std::string& line, const std::string& name) {
  const size_t at = line.find(" " + name + "=");
  if (at == std::string::npos) return {};
  const size_t begin = at + name.size() + 2;
  return line.substr(begin, line.find(' ', begin) - begin);
}

class SlurmEngine final : public ChildEngine {
 public:
  SlurmEngine() : nodes_(variable("SLURM_JOB_NODELIST").value_or("")) {
    if (nodes_.empty())
      throw user_error(
          "--on slurm: this is no allocation of Slurm; say with --nodes how many nodes it is to have, or start it by sbatch or in salloc (docs/cluster.md)");
  }

  /// As they were the last time if the controller does not answer.
  std::vector<LaunchSlot> slots() override {
    try {
      slots_ = slots_now();
    } catch (const Error&) {
      if (slots_.empty()) throw;
    }
    return slots_;
  }

 private:
  std::vector<LaunchSlot> slots_now() const {
    std::map<std::string, std::string> addresses;  // of the nodes that are up
    std::istringstream lines(output_of("scontrol show node '" + nodes_ + "' --oneliner"));
    for (std::string line; std::getline(lines, line);) {
      const std::string state = field(line, "State");
      const bool down = state.find_first_of('*') != std::string::npos ||
                        state.find("DOWN") != std::string::npos || state.find("FAIL") != std::string::npos ||
                        state.find("NOT_RESPONDING") != std::string::npos;
      const std::string node = line.substr(sizeof "NodeName=" - 1, line.find(' ') - sizeof "NodeName=" + 1);
      if (!down) addresses[node] = field(line, "NodeAddr");
    }
    const std::vector<int> tasks = tasks_of_nodes(variable("SLURM_TASKS_PER_NODE").value_or(""));
    std::vector<LaunchSlot> slots;
    std::istringstream names(output_of("scontrol show hostnames '" + nodes_ + "'"));
    size_t number = 0;
    for (std::string name; std::getline(names, name); ++number) {
      const int count = number < tasks.size() ? tasks[number] : 1;
      if (addresses.contains(name))
        slots.insert(slots.end(), static_cast<size_t>(count), {name, addresses[name]});
    }
    return slots;
  }

  /// A step of its own for each process, on a node of its own choice: what happens to one does nothing to the
  /// others.
  Launched launched(const LaunchSlot& slot, const LaunchCommand& command) override {
    std::vector<std::string> words = {"srun",      "--exact", "--overlap", "--kill-on-bad-exit=0", "--wait=0",
                                      "--no-kill", "-N1",     "-n1",       "--export=ALL",         "-w",
                                      slot.host,   "--mem=0", "--mpi=none"};
    if (const auto cpus = variable("SLURM_CPUS_PER_TASK")) words.push_back("--cpus-per-task=" + *cpus);
    words.insert(words.end(), command.words.begin(), command.words.end());
    return {.start = {.name = "srun on " + slot.host,
                      .words = std::move(words),
                      .environment = command.environment,
                      .log = {}}};
  }
  /// srun ends with 0 when Slurm has lost the node.
  LaunchEnding ending(const LaunchSlot& slot, int code) override {
    return {.code = code, .host_lost = is_down(slot.host)};
  }
  bool is_down(const std::string& host) {
    for (const LaunchSlot& slot : slots())
      if (slot.host == host) return false;
    return true;
  }
  /// srun then kills its step.
  int killing_signal() const override { return SIGTERM; }

  std::string nodes_;
  std::vector<LaunchSlot> slots_;
};

}  // namespace

std::vector<std::string> slurm_submission(const std::vector<std::string>& command, int nodes,
                                          const std::string& partition, const std::string& array) {
  std::string script = "exec";
  for (const std::string& word : command) script += " " + shell_word(word);
  std::vector<std::string> words = {"sbatch",
                                    "--no-kill",
                                    "--requeue",
                                    "--open-mode=append",
                                    "--signal=B:TERM@120",
                                    "--job-name=telar",
                                    array.empty() ? "--output=telar-%j.log" : "--output=telar-%A_%a.log",
                                    "--ntasks-per-node=1",
                                    fmt::format("--nodes={}", nodes)};
  if (!partition.empty()) words.push_back("--partition=" + partition);
  if (!array.empty()) words.push_back("--array=" + array);
  words.insert(words.end(), {"--wrap", script});
  return words;
}

std::string slurm_job() {
  const auto array = variable("SLURM_ARRAY_JOB_ID");
  if (!array) return variable("SLURM_JOB_ID").value_or("");
  return *array + "_" + variable("SLURM_ARRAY_TASK_ID").value_or("");
}

void requeue_slurm_job(const std::function<void(const std::string&)>& say) {
  const std::string id = slurm_job();
  const std::string job = output_of("scontrol show job " + id + " --oneliner");
  // Slurm does it itself after a preemption.
  if (field(job, "BatchFlag") != "1" || field(job, "Requeue") != "1" || field(job, "JobState") != "RUNNING")
    return;
  say("Slurm queues the job again; it continues from its checkpoint");  // first, because it ends this process
  output_of("scontrol requeue " + id);
}

std::unique_ptr<LaunchEngine> slurm_engine() { return std::make_unique<SlurmEngine>(); }

}  // namespace telar
