#include "telar/runtime/state_tensors.h"

#include <algorithm>

#include "telar/core/error.h"

namespace telar {

std::byte* StateTensors::arena_of(const StateMemory& memory, const StatePlace& place) {
  return place.state ? memory.states[*place.state]->data() : memory.parameters->data();
}

std::vector<float> StateTensors::read(const std::string& name) const {
  const StatePlace place = state_place(state_, name);
  if (program_.keeps_apart()) {
    return from_pieces(place.parameter,
                       [&](const Replica& replica) { return arena_of(replica.home(), place); });
  }
  // Optimizer state is valid only where it is updated; parameters are valid everywhere.
  if (place.state && state_.memories.size() > 1) {
    return together(place.parameter, [&](const Replica& replica) { return arena_of(replica.home(), place); });
  }
  const StateMemory& memory = *state_.memories.front();
  const ArenaLayout::Entry& entry = memory.arena.find(place.parameter);
  std::vector<float> values(static_cast<size_t>(shape(name).elements()));
  memory.device->read(entry.layout, arena_of(memory, place) + entry.offset, values);
  return values;
}

void StateTensors::write(const std::string& name, std::span<const float> values) const {
  const StatePlace place = state_place(state_, name);
  for (const auto& memory : state_.memories) {
    if (memory->holdings != nullptr && !memory->arena.has(place.parameter)) continue;
    const ArenaLayout::Entry& entry = memory->arena.find(place.parameter);
    std::byte* to = arena_of(*memory, place) + entry.offset;
    if (memory->holdings == nullptr) {
      memory->device->write(entry.layout, values, to);
      continue;
    }
    const auto index = static_cast<size_t>(&entry - memory->arena.entries.data());
    const Piece& piece = (*memory->holdings)[index].piece;
    std::vector<float> part(static_cast<size_t>(piece.floats()));
    piece.take_from(values, part);
    memory->device->write(entry.layout, part, to);
  }
}

std::vector<float> StateTensors::local_piece(const Piece& piece, const ArenaOf& arena) const {
  for (const auto& replica : replicas_) {
    const StateMemory& memory = replica->home();
    const auto kept = std::ranges::find(*memory.holdings, piece, &Holding::piece);
    if (kept == memory.holdings->end()) continue;
    const ArenaLayout::Entry& entry =
        memory.arena.entries[static_cast<size_t>(kept - memory.holdings->begin())];
    std::vector<float> values(static_cast<size_t>(piece.floats()));
    memory.device->read(entry.layout, arena(*replica) + entry.offset, values);
    return values;
  }
  throw run_error("no worker of this process keeps {}", piece.name());
}

std::vector<float> StateTensors::from_pieces(const std::string& parameter, const ArenaOf& arena) const {
  const Shape whole = state_shape(program_, parameter);
  const auto owned = owners_.find(parameter);
  if (owned == owners_.end()) return local_piece({parameter, whole, 0, whole[0]}, arena);
  std::vector<float> values(static_cast<size_t>(whole.elements()));
  const int rank = processes_ == nullptr ? 0 : processes_->rank();
  for (const auto& [piece, process] : owned->second) {
    std::vector<float> part(static_cast<size_t>(piece.floats()));
    if (process == rank) part = local_piece(piece, arena);
    if (processes_ != nullptr) processes_->broadcast(std::as_writable_bytes(std::span(part)), process);
    piece.put_into(values, part);
  }
  return values;
}

std::vector<float> StateTensors::read_gradient(const std::string& parameter) const {
  const ArenaOf gradients = [](const Replica& replica) { return replica.gradients(); };
  return program_.keeps_apart() ? from_pieces(parameter, gradients) : together(parameter, gradients);
}

std::vector<float> StateTensors::together(const std::string& parameter, const ArenaOf& arena) const {
  const StateMemory& memory = *state_.memories.front();
  const ArenaLayout::Entry& entry = memory.arena.find(parameter);
  std::vector<std::byte> whole(entry.layout.bytes);
  for (const auto& replica : replicas_) {
    for (const auto& [begin, end] : replica->owned_ranges()) {
      const size_t from = std::max(begin, entry.offset);
      const size_t to = std::min(end, entry.offset + entry.layout.bytes);
      if (from >= to) continue;
      const std::span<std::byte> part = std::span(whole).subspan(from - entry.offset, to - from);
      replica->device().copy_out(arena(*replica) + from, part);
    }
  }
  const auto lying = memory.device->allocate(whole.size(), "a tensor of the state");
  memory.device->copy_in(whole, lying->data());
  std::vector<float> values(static_cast<size_t>(shape(parameter).elements()));
  memory.device->read(entry.layout, lying->data(), values);
  return values;
}

}  // namespace telar
