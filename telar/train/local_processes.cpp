#include "telar/train/local_processes.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <fstream>

#include "telar/core/error.h"

namespace telar {

namespace {

using namespace std::chrono_literals;

constexpr int kMostQuickDeaths = 5;
constexpr auto kQuick = 10s;

int spawn(const LocalProcesses::Start& what) {
  std::vector<std::string> variables;
  for (char** entry = ::environ; *entry != nullptr; ++entry) {
    const std::string variable = *entry;
    if (!what.environment.contains(variable.substr(0, variable.find('=')))) variables.push_back(variable);
  }
  for (const auto& [name, value] : what.environment) variables.push_back(name + "=" + value);
  const auto pointers = [](const std::vector<std::string>& texts) {
    std::vector<char*> all;
    for (const std::string& text : texts) all.push_back(const_cast<char*>(text.c_str()));
    all.push_back(nullptr);
    return all;
  };
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, what.log.c_str(), O_WRONLY | O_CREAT | O_APPEND,
                                   0666);
  posix_spawn_file_actions_adddup2(&files, STDOUT_FILENO, STDERR_FILENO);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  posix_spawnattr_setpgroup(&attributes, 0);
  pid_t pid = -1;
  const int failure = ::posix_spawnp(&pid, what.words[0].c_str(), &files, &attributes,
                                     pointers(what.words).data(), pointers(variables).data());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&files);
  if (failure != 0) {
    throw run_error(
        "{} cannot be started: {}: {}", what.name, what.words[0],
        std::strerror(failure));  // NOLINT(concurrency-mt-unsafe): glibc's is safe for known numbers
  }
  return pid;
}

std::string how(int status) {
  if (WIFEXITED(status)) return fmt::format("has ended with exit code {}", WEXITSTATUS(status));
  return fmt::format("was killed by signal {}", WTERMSIG(status));
}

std::string last_lines(const std::filesystem::path& log) {
  std::ifstream file(log);
  std::deque<std::string> lines;
  for (std::string line; std::getline(file, line);) {
    lines.push_back(line);
    if (lines.size() > 5) lines.pop_front();
  }
  return fmt::format("{}", fmt::join(lines, "\n"));
}

}  // namespace

LocalProcesses::LocalProcesses(std::function<void(const std::string&)> say)
    : say_(std::move(say)), thread_([this](const std::stop_token& stop) { watch(stop); }) {}

LocalProcesses::~LocalProcesses() {
  let_end();
  signal_all(SIGTERM);
  if (!wait_for_end(10)) {
    signal_all(SIGKILL);
    wait_for_end(10);
  }
}

void LocalProcesses::start(Start what) {
  const std::scoped_lock lock(mutex_);
  Process process{std::move(what), -1, 0, Clock::now(), {}};
  process.pid = spawn(process.what);
  processes_.push_back(std::move(process));
}

void LocalProcesses::let_end() {
  const std::scoped_lock lock(mutex_);
  restarts_ = false;
}

bool LocalProcesses::all_ended() const {
  const std::scoped_lock lock(mutex_);
  return std::all_of(processes_.begin(), processes_.end(),
                     [](const Process& process) { return process.pid < 0; });
}

bool LocalProcesses::wait_for_end(double seconds) {
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  while (!all_ended()) {
    if (Clock::now() > end) return false;
    std::this_thread::sleep_for(10ms);
  }
  return true;
}

void LocalProcesses::check() const {
  const std::scoped_lock lock(mutex_);
  if (!failure_.empty()) throw run_error("{}", failure_);
}

void LocalProcesses::signal_all(int number) {
  const std::scoped_lock lock(mutex_);
  for (const Process& process : processes_) {
    if (process.pid > 0) ::kill(process.pid, number);
  }
}

void LocalProcesses::watch(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    {
      const std::scoped_lock lock(mutex_);
      for (Process& process : processes_) look_after(process);
    }
    std::this_thread::sleep_for(20ms);
  }
}

/// Under the mutex.
void LocalProcesses::look_after(Process& process) {
  const auto now = Clock::now();
  if (process.pid < 0) {
    if (!restarts_ || !failure_.empty() || now < process.again) return;
    process.started = now;
    try {
      process.pid = spawn(process.what);
      if (say_) say_(process.what.name + " is started again");
    } catch (const Error& error) {
      failure_ = error.what();
    }
    return;
  }
  int status = 0;
  if (::waitpid(process.pid, &status, WNOHANG) != process.pid) return;
  process.pid = -1;
  if (!restarts_) return;
  const std::string death = fmt::format("{} {}", process.what.name, how(status));
  process.quick_deaths = now - process.started < kQuick && WIFEXITED(status) ? process.quick_deaths + 1 : 0;
  process.again = now + process.quick_deaths * 200ms;
  if (process.quick_deaths >= kMostQuickDeaths) {
    failure_ =
        fmt::format("{}, {} times in a row soon after it was started; its log, {}, ends with:\n{}", death,
                    process.quick_deaths, process.what.log.string(), last_lines(process.what.log));
  }
  if (say_) say_(death);
}

}  // namespace telar
