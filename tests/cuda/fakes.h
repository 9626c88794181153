#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <set>
#include <string>

#include "cuda/streams.h"
#include "telar/core/dtype.h"

namespace telar::test {

/// What the libraries' stand-ins are to do, and what they were told.
struct Fake {
  int driver = 13000;
  int gpus = 2;
  int hidden_gpus = 0;                  ///< of this machine, before those that are counted
  size_t memory = size_t{1} << 30;      ///< of one allocation
  cudaError_t failure = cudaSuccess;    ///< of what a stream was told, found when somebody waits for it
  bool pins = true;                     ///< whether memory of the host can be registered
  bool channels_last = true;            ///< whether cuDNN can compute with channels last
  bool plain = true;                    ///< whether it can with channels in their place
  bool convolves = true;                ///< whether it can compute anything
  bool fuses = true;                    ///< whether it can compute graphs of several operations
  bool norms = true;                    ///< whether it can compute batch norms (of bf16, channels last)
  bool further_engines = false;         ///< whether it proposes many more
  bool compiles = false;                ///< whether these are compiled when they are planned
  int products_that_work = 8;           ///< how many of cuBLASLt's proposals can be run, from the last one on
  bool epilogues = true;                ///< whether cuBLASLt has algorithms with an epilogue
  int nccl_error = 0;                   ///< what NCCL finds meanwhile: no sum is completed then
  cudaError_t recording = cudaSuccess;  ///< what ends the recording of a stream

  int blocks = 0;                       ///< allocated now
  int waits = 0;                        ///< for a stream
  int products = 0;                     ///< that were computed
  int convolutions = 0;                 ///< likewise
  int norms_computed = 0;               ///< batch norms likewise
  int fused = 0;                        ///< operations behind a convolution that were computed with it
  int descriptors = 0;                  ///< of cuDNN's graphs, there are now
  int graphs = 0;                       ///< launched
  int graphs_among_sums = 0;            ///< prepared while a sum of NCCL's held their GPU up
  int plans = 0;                        ///< of cuDNN, that were made or asked for in vain
  std::set<std::string> executed = {};  ///< engines of cuDNN that were told to compute something
};
Fake& fake();
/// Adds to one of the counts; notes that an engine was told to compute. From any thread: replicas have one
/// each.
void count(int Fake::*what, int more = 1);
void note_executed(const std::string& engine);

/// `error`, which the thread's next cudaGetLastError() tells, too, as CUDA does.
cudaError_t failed(cudaError_t error);
/// Aborts while this thread records a stream: CUDA then forbids most of what is not put on it.
void forbid_recording();

/// The GPU that this thread has chosen.
int current_gpu();
/// Whether it was told to make a sum by NCCL that is not complete.
bool is_summing();

/// What was put on a stream, or on all of the GPU that this thread has chosen, is done.
void finish(cudaStream_t stream);
void finish_all();

/// Memory of the GPU, of NaN; see device_memory.h.
void* allocate_device_memory(size_t bytes);
void free_device_memory(void* memory);

/// The value of element `i`, f32 or bf16, and its place taken by another.
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
/// Aligned as the libraries were promised.
inline bool is_aligned(const void* memory) { return reinterpret_cast<uintptr_t>(memory) % 256 == 0; }

}  // namespace telar::test
