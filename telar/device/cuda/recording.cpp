#include "telar/device/cuda/recording.h"

#include <utility>

#include "telar/device/cuda/check.h"

namespace telar::cuda {

namespace {

/// Throws Error (run) when the call failed, and clears CUDA's error, which the next kernel call would report
/// again.
void check_recording(cudaError_t status, const char* what) {
  if (status != cudaSuccess) cudaGetLastError();
  check(status, what);
}

cudaGraph_t record(const Gpu& gpu, const std::function<void()>& enqueue) {
  cudaGraph_t graph = nullptr;
  // Other threads may use their GPUs during the recording.
  check_recording(cudaStreamBeginCapture(gpu.stream(), cudaStreamCaptureModeThreadLocal), "recording a step");
  try {
    enqueue();
  } catch (...) {
    cudaStreamEndCapture(gpu.stream(), &graph);
    if (graph != nullptr) cudaGraphDestroy(graph);
    cudaGetLastError();
    throw;
  }
  check_recording(cudaStreamEndCapture(gpu.stream(), &graph), "recording a step");
  return graph;
}

}  // namespace

Recording::Recording(const Gpu& gpu, const std::function<void()>& enqueue) {
  cudaGraph_t graph = record(gpu, enqueue);
  const cudaError_t status = cudaGraphInstantiate(&executable_, graph, 0);
  cudaGraphDestroy(graph);
  check_recording(status, "preparing a recorded step");
}

Recording::~Recording() {
  if (executable_ != nullptr) cudaGraphExecDestroy(executable_);
}

Recording::Recording(Recording&& other) noexcept : executable_(std::exchange(other.executable_, nullptr)) {}

void Recording::play(const Gpu& gpu) const {
  check(cudaGraphLaunch(executable_, gpu.stream()), "a recorded step");
}

}  // namespace telar::cuda
