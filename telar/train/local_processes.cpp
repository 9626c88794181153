#include "telar/train/local_processes.h"

#include <signal.h>
#include <sys/wait.h>

#include <algorithm>

#include "telar/core/error.h"

namespace telar {

namespace {

using namespace std::chrono_literals;

constexpr int kMostQuickDeaths = 5;
constexpr auto kQuick = 10s;

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

void LocalProcesses::start(ChildStart what) {
  const std::scoped_lock lock(mutex_);
  Process process{.what = std::move(what), .started = Clock::now(), .again = {}};
  process.pid = start_child(process.what);
  processes_.push_back(std::move(process));
}

bool LocalProcesses::has(const std::string& name) const {
  const std::scoped_lock lock(mutex_);
  return std::ranges::any_of(processes_, [&](const Process& process) { return process.what.name == name; });
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
      std::erase_if(processes_, [](const Process& process) { return process.left; });
    }
    std::this_thread::sleep_for(20ms);
  }
}

/// The caller holds the mutex.
void LocalProcesses::look_after(Process& process) {
  const auto now = Clock::now();
  if (process.pid < 0) {
    if (!restarts_ || !failure_.empty() || now < process.again) return;
    process.started = now;
    try {
      process.pid = start_child(process.what);
      if (say_) say_(process.what.name + " is restarted");
    } catch (const Error& error) {
      failure_ = error.what();
    }
    return;
  }
  int status = 0;
  if (::waitpid(process.pid, &status, WNOHANG) != process.pid) return;
  process.pid = -1;
  if (!restarts_) return;
  process.left = process.what.may_leave && WIFEXITED(status) && process.what.may_leave(WEXITSTATUS(status));
  if (process.left) return;
  const std::string death = fmt::format("{} {}", process.what.name, ending_text(status));
  process.quick_deaths = now - process.started < kQuick && WIFEXITED(status) ? process.quick_deaths + 1 : 0;
  process.again = now + process.quick_deaths * 200ms;
  const auto with_log = [&](const std::string& what) {
    return fmt::format("{}; its log {} ends with:\n{}", what, process.what.log.string(),
                       last_lines(process.what.log, 5));
  };
  if (process.what.irreplaceable) {
    failure_ = fmt::format("{}, {}", death, process.what.irreplaceable());
    if (WIFEXITED(status) && !process.what.log.empty()) failure_ = with_log(failure_);
  } else if (process.quick_deaths >= kMostQuickDeaths) {
    failure_ = with_log(
        fmt::format("{}, {} times in a row, soon after it was started", death, process.quick_deaths));
  }
  if (say_) say_(death);
}

}  // namespace telar
