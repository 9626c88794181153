#pragma once

#include <mpi.h>

#include <cstddef>
#include <memory>
#include <span>

#include "telar/comm/transfer.h"

namespace telar::mpi {

/// Persistent requests of MPI: what a message needs is made once. `tag` tells apart the messages between two
/// processes in `comm`.
std::unique_ptr<Transfer> message_to(MPI_Comm comm, int rank, int tag, std::span<const std::byte> bytes);
std::unique_ptr<Transfer> message_from(MPI_Comm comm, int rank, int tag, std::span<std::byte> bytes);

}  // namespace telar::mpi
