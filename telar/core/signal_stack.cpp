#include "telar/core/signal_stack.h"

#include <signal.h>

#include <cstddef>
#include <vector>

namespace telar {

namespace {

/// Leaves alone a stack that the thread has already: Python's, or a sanitizer's.
class SignalStack {
 public:
  SignalStack() {
    stack_t known{};
    sigaltstack(nullptr, &known);
    if ((known.ss_flags & SS_DISABLE) == 0) return;
    constexpr size_t kBytes = size_t{1} << 16;  // AVX-512's and AMX's registers are part of a frame
    memory_.resize(kBytes);
    stack_t stack{};
    stack.ss_sp = memory_.data();
    stack.ss_size = memory_.size();
    sigaltstack(&stack, nullptr);
  }
  ~SignalStack() {
    if (memory_.empty()) return;
    stack_t none{};
    none.ss_flags = SS_DISABLE;
    sigaltstack(&none, nullptr);
  }
  SignalStack(const SignalStack&) = delete;
  SignalStack& operator=(const SignalStack&) = delete;

 private:
  std::vector<std::byte> memory_;
};

}  // namespace

void give_signals_a_stack() { static const thread_local SignalStack stack; }

}  // namespace telar
