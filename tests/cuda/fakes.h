#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <functional>
#include <set>
#include <string>

#include "cuda/streams.h"
#include "telar/core/bf16.h"
#include "telar/core/dtype.h"

namespace telar::test {

/// Settings of the fake libraries, and counts of their calls.
struct Fake {
  int driver = 13000;
  int gpus = 2;
  int hidden_gpus = 0;                ///< GPUs of this machine, before those that are counted
  size_t memory = size_t{1} << 30;    ///< limit of one allocation
  cudaError_t failure = cudaSuccess;  ///< of work on a stream, reported to the thread that waits for it
  bool pins = true;                   ///< whether host memory can be registered
  bool channels_last = true;          ///< whether cuDNN supports channels last
  bool plain = true;                  ///< whether cuDNN supports plain layout
  bool convolves = true;              ///< whether cuDNN supports convolutions at all
  bool fuses = true;                  ///< whether cuDNN supports graphs of several operations
  bool norms = true;                  ///< whether cuDNN supports batch norms (bf16, channels last)
  bool further_engines = false;       ///< whether cuDNN proposes many more engines
  bool compiles = false;              ///< whether those engines are compiled when they are planned
  int products_that_work = 8;         ///< how many of cuBLASLt's proposals can run, counted from the last one
  bool epilogues = true;              ///< whether cuBLASLt has algorithms with an epilogue
  int nccl_error = 0;                 ///< error that NCCL detects; no sum completes then
  cudaError_t recording = cudaSuccess;  ///< error that ends the recording of a stream

  int blocks = 0;                       ///< allocated now
  int waits = 0;                        ///< of the host for a stream
  int products = 0;                     ///< computed
  int convolutions = 0;                 ///< computed
  int norms_computed = 0;               ///< batch norms computed
  int fused = 0;                        ///< operations that were computed with their convolution
  int descriptors = 0;                  ///< of cuDNN's graphs, existing now
  int graphs = 0;                       ///< launched
  int graphs_among_sums = 0;            ///< prepared while a sum of NCCL's blocked their GPU
  int plans = 0;                        ///< of cuDNN, created or refused
  std::set<std::string> executed = {};  ///< engines of cuDNN that computed something
};
Fake& fake();
/// Increments a count; records an engine that was used. Called from any thread: each replica has its own.
void count(int Fake::*what, int more = 1);
void note_executed(const std::string& engine);

/// Returns `error`, which the thread's next cudaGetLastError() also returns, as in CUDA.
cudaError_t failed(cudaError_t error);
/// Aborts if this thread records a stream: CUDA then forbids most calls that do not enqueue work.
void forbid_recording();

/// The current GPU of this thread.
int current_gpu();
/// Whether an NCCL sum that is not complete was enqueued on the current GPU.
bool is_summing();

/// The work, with the faults that a rehearsal asks for (fake_faults.cpp).
std::function<void()> with_faults(std::function<void()> work);

/// Completes the work on a stream, or on the whole current GPU of this thread.
void finish(cudaStream_t stream);
void finish_all();

/// Memory of the GPU, filled with NaN; see device_memory.h.
void* allocate_device_memory(size_t bytes);
void free_device_memory(void* memory);

/// Reads or writes element `i`, f32 or bf16.
inline float load(const void* memory, bool bf16, size_t i) {
  return bf16 ? from_bf16(static_cast<const uint16_t*>(memory)[i]) : static_cast<const float*>(memory)[i];
}
inline void store(void* memory, bool bf16, size_t i, float value) {
  if (bf16) {
    static_cast<uint16_t*>(memory)[i] = to_bf16(value);
  } else {
    static_cast<float*>(memory)[i] = value;
  }
}
/// Whether memory has the alignment that the libraries were promised.
inline bool is_aligned(const void* memory) { return reinterpret_cast<uintptr_t>(memory) % 256 == 0; }

}  // namespace telar::test
