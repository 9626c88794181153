#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "telar/comm/group.h"
#include "telar/core/buffer.h"
#include "telar/device/device.h"
#include "telar/device/layout.h"
#include "telar/graph/program.h"
#include "telar/runtime/state_name.h"

namespace telar {

/// Ranges of bytes [begin, end) of an arena.
using ByteRanges = std::vector<std::pair<size_t, size_t>>;
/// The ranges of these buckets that a member of the group updates: its shards, or its parts (Group::part).
/// `group`: null for a single worker, which updates all.
ByteRanges shards_of(const ByteRanges& buckets, const Group* group);
ByteRanges parts_of(const ByteRanges& buckets, const Group* group);

/// What a worker keeps of a variable, and the group whose members keep the same.
struct KeptPiece {
  Piece piece;
  std::string copies;

  bool operator==(const KeptPiece&) const = default;
};
/// In their order in the arenas. `worker`: number among all.
std::vector<KeptPiece> kept_by(const Program& program, int64_t worker);

/// A range of the arenas whose optimizer state is kept, and its offset in the memory of each slot.
struct StateSlice {
  size_t begin = 0;
  size_t end = 0;
  size_t offset = 0;
};

/// The state in one memory, the host's or a GPU's: of all workers that compute there, or of one worker
/// (StateHome).
struct StateMemory {
  const Device* device = nullptr;  ///< a device that computes in it
  /// Offsets and sizes are the same in all memories; of workers that share none, of what all keep whole.
  ArenaLayout arena;
  /// Byte ranges of the program's buckets in the arenas; empty ones for buckets of what the worker does not
  /// keep. Without buckets, one range for everything.
  ByteRanges buckets;
  std::vector<KeptPiece> kept;  ///< by its workers, in the order of the arena
  Update update = Update::whole;
  std::unique_ptr<Memory> parameters;
  /// Memory of each slot of optimizer state: its slices one after the other. There is one slice, the whole
  /// arena, unless each worker keeps only that of its share (Update::of_all).
  std::vector<std::unique_ptr<Memory>> states;
  std::vector<StateSlice> slices;  ///< ascending

  bool has_all_state() const { return slices.size() == 1 && slices[0].end - slices[0].begin == arena.bytes; }
  /// The offset in the memory of a slot of the state for this offset in the arena. Throws Error (run) when it
  /// is not kept here.
  size_t state_offset(size_t arena_offset) const;
  bool in_host_memory() const { return device->in_host_memory(); }
  /// Whether all workers of the process have it (StateHome::of_process).
  bool shared() const { return update != Update::whole; }
};

/// What all replicas of a process share. Each updates its shard of the state in its own memory. With several
/// memories, parameters are equal in all of them after each step, but optimizer state is valid only where it
/// is updated. Workers that share no memory have one each.
struct SharedState {
  std::vector<std::string> slots;  ///< of optimizer state
  std::vector<std::unique_ptr<StateMemory>> memories;
  using Layouts = std::map<std::string, TensorLayout>;  ///< of parameters, by name

  /// Allocates everything in the memory of each of these devices, one for each worker of this process, of
  /// which `first` is the number of the first one. `layouts`: of the
  /// parameters, for each worker; if the workers share them, those of the first count, and with several
  /// memories all layouts are plain. `groups`: each worker's member of the group of all; null if alone.
  void allocate(const Program& program, int64_t first, const std::vector<const Device*>& devices,
                const std::vector<Layouts>& layouts, const std::vector<const Group*>& groups);
  StateMemory& memory_of(size_t worker) const { return *memories[memory_of_worker_[worker]]; }
  /// The same in every memory, except device-specific information about layouts.
  const ArenaLayout& arena() const { return memories.front()->arena; }
  /// The staging buffer, an arena in host memory through which parameters pass from one memory to the others.
  /// Null if there is only one memory.
  std::byte* staging();
  /// A line for each parameter or piece of one that a worker keeps: its name, a tab, and where and how it
  /// lies in memory. Processes can sum what several of them keep only if it lies alike.
  std::string layout_text() const;

 private:
  using LayoutOf = std::function<TensorLayout(const Piece&)>;
  /// The memory of what this worker keeps.
  void add_memory(const Program& program, int64_t worker, const Device& device, const LayoutOf& layout_of,
                  const std::vector<const Group*>& groups);

  std::vector<size_t> memory_of_worker_;  // index into memories
  Buffer staging_;                        // if no CPU replica computes in host memory
};

/// The location of a tensor of the state: its arena and its parameter.
struct StatePlace {
  std::optional<size_t> state;  ///< index of the optimizer state slot; none: the parameters
  std::string parameter;
};
/// Throws Error (run) for an unknown optimizer state.
StatePlace state_place(const SharedState& state, const StateName& name);

/// The tensors of a program's state: parameters, then optimizer state.
std::vector<StateName> state_names(const Program& program);
/// The shape of a tensor of the state. Throws Error (run) for an unknown parameter.
Shape state_shape(const Program& program, const StateName& name);

}  // namespace telar
