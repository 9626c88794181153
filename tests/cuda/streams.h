#pragma once

#include <driver_types.h>

#include <functional>

namespace telar::test {

/// Work for a stream of what stands for CUDA: done when somebody waits for it, as late as CUDA may do it, so
/// that what is used too early, or given up too early, is seen; or kept in the graph that the stream is
/// captured into. Memory of the GPU can be touched in it alone.
void on_stream(cudaStream_t stream, std::function<void()> work);
/// The same for work that may have to wait for what another GPU does: it is asked again until it says that it
/// is done, and holds the stream up.
void on_stream_when_it_can(cudaStream_t stream, std::function<bool()> work);

}  // namespace telar::test
