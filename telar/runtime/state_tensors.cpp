#include "telar/runtime/state_tensors.h"

#include <algorithm>
#include <functional>

#include "telar/core/error.h"

namespace telar {

namespace {

/// What a range of the arenas has of an entry, as offsets in the entry; empty if nothing.
std::pair<size_t, size_t> in_entry(const ArenaLayout::Entry& entry, size_t begin, size_t end) {
  const size_t from = std::max(begin, entry.offset);
  const size_t to = std::min(end, entry.offset + entry.layout.bytes);
  return from < to ? std::pair(from - entry.offset, to - entry.offset) : std::pair<size_t, size_t>(0, 0);
}

}  // namespace

std::byte* StateTensors::memory_at(const StateMemory& memory, const StatePlace& place, size_t offset) {
  if (!place.state) return memory.parameters->data() + offset;
  return memory.states[*place.state]->data() + memory.state_offset(offset);
}

std::vector<float> StateTensors::read(const StateName& name) const {
  const StatePlace place = state_place(state_, name);
  const MemoryAt at = [&](const Replica& replica, size_t offset) {
    return memory_at(replica.home(), place, offset);
  };
  if (name.worker) return of_worker(place, *name.worker);
  if (place.state && trains_alone(program_)) return mean_of_workers(place);
  const StateMemory& memory = *state_.memories.front();
  if (!memory.shared()) return from_pieces(place.parameter, at);
  // Optimizer state is valid only where it is updated; parameters are valid everywhere.
  if (place.state && (state_.memories.size() > 1 || memory.update == Update::of_all))
    return together(place.parameter, at);
  const ArenaLayout::Entry& entry = memory.arena.find(place.parameter);
  std::vector<float> values(static_cast<size_t>(shape(name).elements()));
  memory.device->read(entry.layout, memory_at(memory, place, entry.offset), values);
  return values;
}

void StateTensors::write(const StateName& name, std::span<const float> values) const {
  const StatePlace place = state_place(state_, name);
  const int64_t first = program_.mesh.first_of(processes_ == nullptr ? 0 : processes_->rank());
  for (size_t m = 0; m < state_.memories.size(); ++m) {
    const auto& memory = state_.memories[m];
    if (name.worker && *name.worker != first + static_cast<int64_t>(m)) continue;
    if (!memory->shared() && !memory->arena.has(place.parameter)) continue;
    const ArenaLayout::Entry& entry = memory->arena.find(place.parameter);
    const auto index = static_cast<size_t>(&entry - memory->arena.entries.data());
    const Piece& piece = memory->kept[index].piece;
    std::vector<float> part(piece.whole() ? 0 : static_cast<size_t>(piece.floats()));
    if (!piece.whole()) piece.take_from(values, part);
    const std::span<const float> kept = piece.whole() ? values : part;
    if (place.state && !memory->has_all_state()) {
      write_slices(*memory, entry, place, kept);
    } else {
      memory->device->write(entry.layout, kept, memory_at(*memory, place, entry.offset));
    }
  }
}

void StateTensors::write_slices(const StateMemory& memory, const ArenaLayout::Entry& entry,
                                const StatePlace& place, std::span<const float> values) {
  const auto whole = memory.device->allocate(entry.layout.bytes, "a tensor of the state");
  memory.device->write(entry.layout, values, whole->data());
  for (const StateSlice& slice : memory.slices) {
    const auto [from, to] = in_entry(entry, slice.begin, slice.end);
    if (from < to)
      memory.device->copy_in({whole->data() + from, to - from},
                             memory_at(memory, place, entry.offset + from));
  }
}

std::vector<float> StateTensors::local_piece(const Piece& piece, const MemoryAt& at) const {
  for (const auto& replica : replicas_) {
    const StateMemory& memory = replica->home();
    const auto kept = std::ranges::find(memory.kept, piece, &KeptPiece::piece);
    if (kept == memory.kept.end()) continue;
    const ArenaLayout::Entry& entry = memory.arena.entries[static_cast<size_t>(kept - memory.kept.begin())];
    std::vector<float> values(static_cast<size_t>(piece.floats()));
    memory.device->read(entry.layout, at(*replica, entry.offset), values);
    return values;
  }
  throw run_error("no worker of this process keeps {}", piece.name());
}

std::vector<float> StateTensors::of_worker(const StatePlace& place, int64_t worker) const {
  const int64_t process = program_.mesh.process_of(worker);
  std::vector<float> values(static_cast<size_t>(shape(place.parameter).elements()));
  if (processes_ == nullptr || processes_->rank() == process) {
    const auto index = static_cast<size_t>(worker - program_.mesh.first_of(process));
    const StateMemory& memory = state_.memory_of(index);
    const ArenaLayout::Entry& entry = memory.arena.find(place.parameter);
    memory.device->read(entry.layout, memory_at(memory, place, entry.offset), values);
  }
  if (processes_ != nullptr)
    processes_->broadcast(std::as_writable_bytes(std::span(values)), static_cast<int>(process));
  return values;
}

std::vector<float> StateTensors::mean_of_workers(const StatePlace& place) const {
  const int64_t workers = program_.mesh.workers();
  std::vector<float> sums = of_worker(place, 0);
  for (int64_t worker = 1; worker < workers; ++worker)
    std::ranges::transform(sums, of_worker(place, worker), sums.begin(), std::plus());
  for (float& sum : sums) sum /= static_cast<float>(workers);
  return sums;
}

std::vector<float> StateTensors::from_pieces(const std::string& parameter, const MemoryAt& at) const {
  const Shape whole = state_shape(program_, parameter);
  const auto owned = owners_.find(parameter);
  if (owned == owners_.end()) return local_piece({parameter, whole, 0, whole[0]}, at);
  std::vector<float> values(static_cast<size_t>(whole.elements()));
  const int rank = processes_ == nullptr ? 0 : processes_->rank();
  for (const auto& [piece, process] : owned->second) {
    std::vector<float> part(static_cast<size_t>(piece.floats()));
    if (process == rank) part = local_piece(piece, at);
    if (processes_ != nullptr) processes_->broadcast(std::as_writable_bytes(std::span(part)), process);
    piece.put_into(values, part);
  }
  return values;
}

std::vector<float> StateTensors::read_gradient(const std::string& parameter) const {
  const MemoryAt gradients = [](const Replica& replica, size_t offset) {
    return replica.gradients() + offset;
  };
  return state_.memories.front()->shared() ? together(parameter, gradients)
                                           : from_pieces(parameter, gradients);
}

std::vector<float> StateTensors::together(const std::string& parameter, const MemoryAt& at) const {
  const StateMemory& memory = *state_.memories.front();
  const ArenaLayout::Entry& entry = memory.arena.find(parameter);
  std::vector<std::byte> whole(entry.layout.bytes);
  for (const auto& replica : replicas_) {
    for (const auto& [begin, end] : replica->owned_ranges()) {
      const auto [from, to] = in_entry(entry, begin, end);
      if (from < to)
        replica->device().copy_out(at(*replica, entry.offset + from),
                                   std::span(whole).subspan(from, to - from));
    }
  }
  add_parts_of_others(entry, whole);
  const auto lying = memory.device->allocate(whole.size(), "a tensor of the state");
  memory.device->copy_in(whole, lying->data());
  std::vector<float> values(static_cast<size_t>(shape(parameter).elements()));
  memory.device->read(entry.layout, lying->data(), values);
  return values;
}

void StateTensors::add_parts_of_others(const ArenaLayout::Entry& entry, std::span<std::byte> whole) const {
  if (processes_ == nullptr) return;
  for (size_t process = 0; process < part_owners_.size(); ++process) {
    for (const auto& [begin, end] : part_owners_[process]) {
      const auto [from, to] = in_entry(entry, begin, end);
      if (from < to) processes_->broadcast(whole.subspan(from, to - from), static_cast<int>(process));
    }
  }
}

}  // namespace telar
