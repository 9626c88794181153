#pragma once

#include <driver_types.h>

#include <array>
#include <string>

namespace telar::cuda {

/// NCCL, loaded on demand: GPUs can compute without it. The private pointers are functions of nccl.h.
class Nccl {
 public:
  using Communicator = void*;
  using Id = std::array<char, 128>;

  /// Throws Error (user) with the reason when the library is missing. The first call sets environment
  /// variables for NCCL.
  Nccl();

  Id new_id() const;
  /// Waits for all members. Throws Error (run).
  Communicator join(const Id& id, int rank, int size) const;
  /// Waits for the members in this process. All sums must be complete.
  void leave(Communicator communicator) const;
  /// Replaces leave() when a member has failed. Incomplete sums end with arbitrary values. Does not wait.
  void abort(Communicator communicator) const;
  /// Throws Error (run) when NCCL has detected that a member or the connection to it has failed.
  void check(Communicator communicator) const;
  /// Replaces `values`, f32, by their sums over the members. Runs on this stream.
  void all_reduce(float* values, size_t count, Communicator communicator, cudaStream_t stream) const;

 private:
  void check(int status, const char* what) const;

  void* library_;  // never closed
  int (*get_unique_id_)(Id*);
  int (*comm_init_rank_)(Communicator*, int, Id, int);
  int (*comm_destroy_)(Communicator);
  int (*comm_abort_)(Communicator);
  int (*comm_get_async_error_)(Communicator, int*);
  int (*all_reduce_)(const void*, void*, size_t, int, int, Communicator, cudaStream_t);
  const char* (*get_error_string_)(int);
};

}  // namespace telar::cuda
