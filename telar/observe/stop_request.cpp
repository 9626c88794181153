#include "telar/observe/stop_request.h"

#include <atomic>

#include "telar/core/error.h"

namespace telar {
namespace {

// A signal handler can access only static objects.
std::atomic<int> received{0};
std::atomic<bool> listening{false};
static_assert(std::atomic<int>::is_always_lock_free, "a signal handler must not wait for a lock");

void note_signal(int number) { received.store(number, std::memory_order_relaxed); }

}  // namespace

StopRequest::StopRequest() {
  if (listening.exchange(true))
    throw run_error("signals are handled already: a process can have only one StopRequest");
  received = 0;
  struct sigaction action = {};
  action.sa_handler = note_signal;
  // RESETHAND gives the second signal its usual effect; RESTART keeps reads and writes from failing.
  action.sa_flags = static_cast<int>(SA_RESETHAND) | SA_RESTART;
  sigaction(SIGINT, &action, &previous_interrupt_);
  sigaction(SIGTERM, &action, &previous_terminate_);
}

StopRequest::~StopRequest() {
  sigaction(SIGINT, &previous_interrupt_, nullptr);
  sigaction(SIGTERM, &previous_terminate_, nullptr);
  listening = false;
}

int StopRequest::signal_number() const { return received.load(std::memory_order_relaxed); }

}  // namespace telar
