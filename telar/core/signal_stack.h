#pragma once

namespace telar {

/// Gives this thread a stack of its own for the handlers of signals that want one (SA_ONSTACK), until it
/// ends.
///
/// oneDNN's products let the stack pointer point into a buffer (its generated code for AVX2). The handler of
/// a signal that comes meanwhile would overwrite what lies before the buffer: the heap, or parameters.
void give_signals_a_stack();

}  // namespace telar
