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

/// The tensors of a session in canonical form, row-major f32, by the names of Session::state_names.
class StateTensors {
 public:
  /// All arguments must outlive this object.
  StateTensors(const Program& program, const SharedState& state,
               const std::vector<std::unique_ptr<Replica>>& replicas, const PieceOwners& owners,
               Processes* processes)
      : program_(program), state_(state), replicas_(replicas), owners_(owners), processes_(processes) {}

  /// Throws Error (run) for an unknown name.
  Shape shape(const std::string& name) const { return state_shape(program_, name); }
  /// Of a tensor that is divided among processes, all of them call it. Waits then.
  std::vector<float> read(const std::string& name) const;
  /// Writes to every memory. The number of values must be the tensor's number of elements.
  void write(const std::string& name, std::span<const float> values) const;
  /// The gradient sums of the last step; otherwise as read().
  std::vector<float> read_gradient(const std::string& parameter) const;

 private:
  using ArenaOf = std::function<const std::byte*(const Replica&)>;

  static std::byte* arena_of(const StateMemory& memory, const StatePlace& place);
  /// Assembles a tensor from the pieces of workers with holdings.
  std::vector<float> from_pieces(const std::string& parameter, const ArenaOf& arena) const;
  std::vector<float> local_piece(const Piece& piece, const ArenaOf& arena) const;
  /// Assembles a tensor from the replicas' parts: each has, in its own arena, the part that it updates.
  std::vector<float> together(const std::string& parameter, const ArenaOf& arena) const;

  const Program& program_;
  const SharedState& state_;
  const std::vector<std::unique_ptr<Replica>>& replicas_;
  const PieceOwners& owners_;
  Processes* processes_;
};

}  // namespace telar
