#pragma once

#include <driver_types.h>

#include <array>
#include <string>

namespace telar::cuda {

/// NCCL, loaded when it is asked for: GPUs compute without it. (Its own names, as nccl.h has them.)
class Nccl {
 public:
  using Communicator = void*;
  using Id = std::array<char, 128>;

  /// Throws Error (user) with the reason when the library is not here. The first one sets what NCCL finds in
  /// the environment.
  Nccl();

  Id new_id() const;
  /// Waits for all members. Throws Error (run).
  Communicator join(const Id& id, int rank, int size) const;
  /// Waits for the members of this process. Sums must be complete.
  void leave(Communicator communicator) const;
  /// Instead, when a member has failed: sums that are not complete come to an end, with any values. Waits for
  /// nobody.
  void abort(Communicator communicator) const;
  /// Throws Error (run) when NCCL has found since that a member or the way to it has failed.
  void check(Communicator communicator) const;
  /// values = their sums over the members, on this stream. f32, in place.
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
