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

  /// Throws Error (user) with the reason when the library is not here.
  Nccl();

  Id new_id() const;
  /// Waits for all members. Throws Error (run).
  Communicator join(const Id& id, int rank, int size) const;
  void leave(Communicator communicator) const;
  /// values = their sums over the members, on this stream. f32, in place.
  void all_reduce(float* values, size_t count, Communicator communicator, cudaStream_t stream) const;

 private:
  void check(int status, const char* what) const;

  void* library_;  // never closed
  int (*get_unique_id_)(Id*);
  int (*comm_init_rank_)(Communicator*, int, Id, int);
  int (*comm_destroy_)(Communicator);
  int (*all_reduce_)(const void*, void*, size_t, int, int, Communicator, cudaStream_t);
  const char* (*get_error_string_)(int);
};

}  // namespace telar::cuda
