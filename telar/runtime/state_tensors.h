#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "telar/graph/program.h"
#include "telar/runtime/piece_owners.h"
#include "telar/runtime/replica.h"
#include "telar/runtime/shared_state.h"

namespace telar {

/// The tensors of a session in canonical form, row-major f32.
class StateTensors {
 public:
  /// All arguments must outlive this object.
  StateTensors(const Program& program, const SharedState& state,
               const std::vector<std::unique_ptr<Replica>>& replicas, const PieceOwners& owners,
               const PartOwners& part_owners, Processes* processes)
      : program_(program),
        state_(state),
        replicas_(replicas),
        owners_(owners),
        part_owners_(part_owners),
        processes_(processes) {}

  /// Throws Error (run) for an unknown name.
  Shape shape(const StateName& name) const { return state_shape(program_, name); }
  /// Of a tensor that is divided among processes, all of them call it. Waits then.
  std::vector<float> read(const StateName& name) const;
  /// Writes to every memory. The number of values must be the tensor's number of elements.
  void write(const StateName& name, std::span<const float> values) const;
  /// The gradient sums of the last step; otherwise as read().
  std::vector<float> read_gradient(const std::string& parameter) const;

 private:
  /// The memory of a replica's tensors at an offset in the arenas.
  using MemoryAt = std::function<const std::byte*(const Replica&, size_t offset)>;

  static std::byte* memory_at(const StateMemory& memory, const StatePlace& place, size_t offset);
  /// Writes to the slices of the optimizer state that a memory keeps.
  static void write_slices(const StateMemory& memory, const ArenaLayout::Entry& entry,
                           const StatePlace& place, std::span<const float> values);
  /// The tensor of a worker that trains alone, and the mean of all workers'.
  std::vector<float> of_worker(const StatePlace& place, int64_t worker) const;
  std::vector<float> mean_of_workers(const StatePlace& place) const;
  /// Assembles a tensor from the pieces of workers with memories of their own.
  std::vector<float> from_pieces(const std::string& parameter, const MemoryAt& memory) const;
  std::vector<float> local_piece(const Piece& piece, const MemoryAt& memory) const;
  /// Assembles a tensor from the replicas' parts: each has, in its own arena, the part that it updates.
  std::vector<float> together(const std::string& parameter, const MemoryAt& memory) const;
  /// Fills in the parts of a tensor, as it lies in memory, that only other processes have.
  void add_parts_of_others(const ArenaLayout::Entry& entry, std::span<std::byte> whole) const;

  const Program& program_;
  const SharedState& state_;
  const std::vector<std::unique_ptr<Replica>>& replicas_;
  const PieceOwners& owners_;
  const PartOwners& part_owners_;
  Processes* processes_;
};

}  // namespace telar
