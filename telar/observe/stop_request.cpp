#include "telar/observe/stop_request.h"

#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <ctime>

#include "telar/core/error.h"

namespace telar {
namespace {

// A signal handler can access only static objects.
std::atomic<int> received{0};
std::atomic<int64_t> received_at{0};  ///< when, by milliseconds_now()
std::atomic<const char*> first_message{nullptr};
std::atomic<const char*> second_message{nullptr};
std::atomic<bool> listening{false};
std::array<std::atomic<int>, 64> groups{};  ///< process groups that end with this process; 0: free
/// In this time, milliseconds, one event may be reported several times: by a shell, the system and
/// mpirun, each by another signal, or by the same one, as Slurm does when it preempts a job, and
/// `timeout`.
constexpr int64_t kOneEvent = 1000;
static_assert(std::atomic<int64_t>::is_always_lock_free && std::atomic<int>::is_always_lock_free &&
                  std::atomic<const char*>::is_always_lock_free,
              "a signal handler must not wait for a lock");

/// Async-signal-safe. On a terminal, an open progress line or the echoed ^C is ended first.
void print(const char* message) {
  if (message == nullptr) return;
  const bool terminal = ::isatty(STDERR_FILENO) == 1;
  if (terminal && ::write(STDERR_FILENO, "\n", 1) < 0) return;
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, message, std::strlen(message));
}

void end_at_once(int number) {
  print(second_message);
  for (const std::atomic<int>& group : groups) {
    if (const int id = group; id > 0) ::kill(-id, SIGKILL);
  }
  ::signal(number, SIG_DFL);
  ::raise(number);  // takes effect when the handler returns
}

/// Async-signal-safe.
int64_t milliseconds_now() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{1000} * now.tv_sec + now.tv_nsec / 1'000'000;
}

void note_signal(int number) {
  const int error = errno;
  int none = 0;
  if (received.compare_exchange_strong(none, number)) {
    received_at = milliseconds_now();
    print(first_message);
  } else if (number != SIGHUP && milliseconds_now() - received_at > kOneEvent) {
    end_at_once(number);
  }
  errno = error;
}

}  // namespace

StopRequest::StopRequest(Messages messages) {
  if (listening.exchange(true))
    throw run_error("signals are handled already: a process can have only one StopRequest");
  received = 0;
  first_message = messages.first;
  second_message = messages.second;
  for (size_t i = 0; i < kSignals.size(); ++i) {
    struct sigaction action = {};
    action.sa_handler = kSignals[i] == SIGPIPE ? SIG_IGN : note_signal;
    // Keeps reads and writes from failing; and see telar/core/signal_stack.h.
    action.sa_flags = SA_RESTART | SA_ONSTACK;
    sigaction(kSignals[i], nullptr, &previous_[i]);
    const bool by_nohup = kSignals[i] == SIGHUP && previous_[i].sa_handler == SIG_IGN;
    if (!by_nohup) sigaction(kSignals[i], &action, nullptr);
  }
}

StopRequest::~StopRequest() {
  for (size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &previous_[i], nullptr);
  listening = false;
}

int StopRequest::signal_number() const { return received.load(std::memory_order_relaxed); }

EndsWithThisProcess::EndsWithThisProcess(int group) : group_(group) {
  for (std::atomic<int>& place : groups) {
    int none = 0;
    if (place.compare_exchange_strong(none, group)) return;
  }
  throw run_error("more than {} processes were started at the same time", groups.size());
}

EndsWithThisProcess::~EndsWithThisProcess() {
  for (std::atomic<int>& place : groups) {
    int mine = group_;
    if (place.compare_exchange_strong(mine, 0)) return;
  }
}

}  // namespace telar
