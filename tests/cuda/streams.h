#pragma once

#include <driver_types.h>

#include <functional>

namespace telar::test {

/// Enqueues work on a stream of the fake CUDA. If the stream is being captured, the work becomes part of the
/// graph. Otherwise it runs when a thread waits for it, as late as CUDA may do it. So tests detect memory
/// that is used or freed too early. Only this work may access GPU memory.
void on_stream(cudaStream_t stream, std::function<void()> work);
/// The same for work that may have to wait for another GPU. It is called again until it returns true, and
/// blocks the stream until then.
void on_stream_when_it_can(cudaStream_t stream, std::function<bool()> work);

}  // namespace telar::test
