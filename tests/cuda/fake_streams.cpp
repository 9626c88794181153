// Fake streams, events and graphs of CUDA.
#include <cuda_runtime_api.h>

#include <chrono>
#include <cstdlib>
#include <deque>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "cuda/device_memory.h"
#include "cuda/fakes.h"
#include "cuda/streams.h"

/// Returns whether the work could be done; otherwise it is called again.
using StreamWork = std::function<bool()>;

/// The number of times that an event was recorded, and that it was reached.
struct Moments {
  CUstream_st* stream = nullptr;
  long recorded = 0;
  long reached = 0;
  std::chrono::steady_clock::time_point when;
};
/// The state on which a stream waits outlives the event, which may be destroyed right after the call.
struct CUevent_st {
  std::shared_ptr<Moments> moments = std::make_shared<Moments>();
};
struct CUgraph_st {
  std::vector<StreamWork> work;
};
struct CUgraphExec_st {
  std::vector<StreamWork> work;
};
struct CUstream_st;

namespace {

/// Streams wait for each other, in any thread, so one lock protects all of them.
std::recursive_mutex& lock() {
  static std::recursive_mutex mutex;
  return mutex;
}

std::set<CUstream_st*>& streams() {
  static std::set<CUstream_st*> all;
  return all;
}

}  // namespace

struct CUstream_st {
  CUstream_st() { streams().insert(this); }
  ~CUstream_st() { streams().erase(this); }
  int gpu = telar::test::current_gpu();
  std::deque<StreamWork> queue;
  std::unique_ptr<CUgraph_st> captured;
};

namespace {

/// The number of streams that this thread records.
thread_local int recording = 0;

enum class Taken { one, nothing, held_up };

Taken take_one(CUstream_st* stream) {
  if (stream->queue.empty()) return Taken::nothing;
  if (!stream->queue.front()()) return Taken::held_up;
  stream->queue.pop_front();
  return Taken::one;
}

/// Whether all work of the stream could be done.
bool empty(CUstream_st* stream) {
  while (take_one(stream) == Taken::one) {
  }
  return stream->queue.empty();
}

/// Whether the `count`-th recording could be reached. True for an event that was never recorded.
bool reach(const Moments& event, long count) {
  while (event.reached < count) {
    const Taken taken = take_one(event.stream);
    if (taken == Taken::nothing) std::abort();
    if (taken == Taken::held_up) return false;
  }
  return true;
}

/// GPUs make progress even if no thread waits for them: does one piece of work of each stream. False if none
/// could be done.
bool work_on() {
  bool any = false;
  for (CUstream_st* stream : streams()) any = (!stream->captured && take_one(stream) == Taken::one) || any;
  return any;
}

/// Waits on the host, and lets other threads run when all streams are blocked.
template <typename Done>
void wait_until(const Done& done) {
  std::unique_lock guard(lock());
  while (!done()) {
    if (work_on()) continue;
    guard.unlock();
    std::this_thread::sleep_for(std::chrono::microseconds(100));
    guard.lock();
  }
}

}  // namespace

namespace telar::test {

void on_stream(cudaStream_t stream, std::function<void()> work) {
  on_stream_when_it_can(stream, [work = with_faults(std::move(work))] {
    work();
    return true;
  });
}

void on_stream_when_it_can(cudaStream_t stream, std::function<bool()> work) {
  const std::lock_guard guard(lock());
  if (stream == nullptr) std::abort();  // nothing may use the default stream, which waits for all others
  StreamWork opened = [work = std::move(work)] {
    const OpenMemory open;
    return work();
  };
  if (stream->captured) {
    stream->captured->work.push_back(std::move(opened));
  } else {
    stream->queue.push_back(std::move(opened));
  }
}

void forbid_recording() {
  if (recording > 0) std::abort();
}

void finish(cudaStream_t stream) {
  if (stream->captured) std::abort();  // CUDA forbids it, too
  wait_until([&] { return empty(stream); });
}

void finish_all() {
  wait_until([] {
    bool all = true;
    for (CUstream_st* stream : streams())
      if (!stream->captured && stream->gpu == current_gpu()) all = empty(stream) && all;
    return all;
  });
}

}  // namespace telar::test

using telar::test::fake;
using telar::test::finish;
using telar::test::on_stream;

extern "C" {

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned /*flags*/) {
  const std::lock_guard guard(lock());
  *stream = new CUstream_st;
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int /*priority*/) {
  return cudaStreamCreateWithFlags(stream, flags);
}
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  finish(stream);
  const std::lock_guard guard(lock());
  delete stream;
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  telar::test::forbid_recording();
  telar::test::count(&telar::test::Fake::waits);
  finish(stream);
  return fake().failure;
}
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  telar::test::forbid_recording();
  const std::lock_guard guard(lock());
  // A thread that polls must see progress eventually.
  if (take_one(stream) == Taken::held_up) work_on();
  return telar::test::failed(stream->queue.empty() ? fake().failure : cudaErrorNotReady);
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned /*flags*/) {
  const std::lock_guard guard(lock());
  telar::test::on_stream_when_it_can(stream, [moments = event->moments, count = event->moments->recorded] {
    return reach(*moments, count);
  });
  return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, cudaEventDefault); }
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned /*flags*/) {
  *event = new CUevent_st;
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  const std::lock_guard guard(lock());
  delete event;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  const std::lock_guard guard(lock());
  event->moments->stream = stream;
  ++event->moments->recorded;
  on_stream(stream, [moments = event->moments] {
    ++moments->reached;
    moments->when = std::chrono::steady_clock::now();
  });
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  telar::test::forbid_recording();
  const std::lock_guard guard(lock());
  // A thread that polls must see progress eventually.
  if (event->moments->reached < event->moments->recorded &&
      take_one(event->moments->stream) == Taken::held_up)
    work_on();
  return telar::test::failed(event->moments->reached < event->moments->recorded ? cudaErrorNotReady
                                                                                : fake().failure);
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  telar::test::forbid_recording();
  const std::shared_ptr<Moments> moments = event->moments;
  wait_until([&] { return reach(*moments, moments->recorded); });
  return fake().failure;
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  const std::lock_guard guard(lock());
  *milliseconds = std::chrono::duration<float, std::milli>(end->moments->when - begin->moments->when).count();
  return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode /*mode*/) {
  const std::lock_guard guard(lock());
  if (stream->captured) return telar::test::failed(cudaErrorStreamCaptureUnsupported);
  stream->captured = std::make_unique<CUgraph_st>();
  ++recording;
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  const std::lock_guard guard(lock());
  *graph = stream->captured.release();
  if (*graph == nullptr) return telar::test::failed(cudaErrorStreamCaptureUnmatched);
  --recording;
  if (fake().recording != cudaSuccess) delete std::exchange(*graph, nullptr);
  return telar::test::failed(fake().recording);
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph,
                                 unsigned long long /*flags*/) {
  if (telar::test::is_summing()) telar::test::count(&telar::test::Fake::graphs_among_sums);
  *executable = new CUgraphExec_st{graph->work};
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  delete executable;
  return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
  const std::lock_guard guard(lock());
  telar::test::count(&telar::test::Fake::graphs);
  for (const StreamWork& work : executable->work) telar::test::on_stream_when_it_can(stream, work);
  return cudaSuccess;
}

}  // extern "C"
