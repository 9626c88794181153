#pragma once

#include <cstdint>
#include <string>

#include "telar/data/dataset.h"
#include "telar/nn/training_step.h"
#include "telar/train/job.h"

namespace telar {

/// The memory that one process needs to train a job, in bytes, without the samples that a source holds. It
/// needs more: the program itself, and what its kernels work with.
struct JobMemory {
  int64_t state = 0;  ///< weights, gradients and the optimizer's state
  int64_t results =
      0;  ///< what the layers compute for a batch and read later, on a device that works in place
  int64_t batches = 0;      ///< batches that are read ahead
  int64_t least_state = 0;  ///< the part of the state that each process has for certain
  int64_t least =
      0;  ///< what each process needs for certain: all of it, or, of parts of a batch, least_state
  std::string largest;  ///< the largest tensor: "the parameter 'fc.weight', f32 [10, 784] (31 KiB)"

  int64_t total() const { return state + results + batches; }
  /// "1.2 GiB (weights, gradients and optimizer 240 MiB, results of the layers 950 MiB, batches 2.0 MiB)".
  std::string str() const;
};

/// `processes`: the number of those that train together. Throws Error (user) if the model does not fit the
/// samples.
JobMemory job_memory(const Job& job, const SampleSpec& spec, int processes = 1);

/// Throws Error (user), naming the largest tensor, if the job cannot run in `bytes` of memory. 0: unknown.
void require_memory(const JobMemory& memory, uint64_t bytes);
/// The same for the memory of this machine. The memory of GPUs is not checked.
void require_memory(const Job& job, const SampleSpec& spec, int processes = 1);
/// The same for what computes outputs only, whose batches may be smaller and whose results are not kept.
void require_memory_of_state(const Job& job, const SampleSpec& spec);

}  // namespace telar
