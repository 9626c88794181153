#pragma once

#include <mpi.h>

#include <memory>
#include <span>
#include <vector>

#include "telar/comm/mpi/shared_regions.h"

namespace telar::mpi {

/// As MPI counts. Throws Error (user) for more values than one call can take.
int count_of(size_t values);

/// Sums of one replica's shards with those of the same replica of the other processes, in place and in the background. All
/// processes add the same shards in the same order.
class Sums {
 public:
  virtual ~Sums() = default;
  /// The next shard is ready in this process.
  virtual void add(std::span<float> shard) = 0;
  /// Makes progress, without waiting. How many of the shards added since clear() hold the sum, in their order.
  virtual size_t complete() = 0;
  /// All that was added is complete: begins again.
  virtual void clear() = 0;
};

/// By MPI_Iallreduce: wherever the processes are. `comm` is used by nobody else meanwhile.
std::unique_ptr<Sums> make_mpi_sums(MPI_Comm comm);

/// Between processes of one host, in memory that all of them see; shards lie in regions' own().
///
/// Each process sums its part of a shard, [begin, end) by shard_of(): it reads that part in the memory of every process, in the order
/// of ranks, and writes the sum to all of them. Nothing is sent, and nothing is read or written twice: of n bytes each process
/// reads n and writes n. (MPI copies through buffers of its own; a sum of 64 MiB between two processes took it several times as long.)
std::unique_ptr<Sums> make_shared_sums(SharedRegions& regions);

}  // namespace telar::mpi
