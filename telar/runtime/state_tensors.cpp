#include "telar/runtime/state_tensors.h"

#include <algorithm>

namespace telar {

std::byte* StateTensors::arena_of(const StateMemory& memory, const StatePlace& place) {
  return place.state ? memory.states[*place.state]->data() : memory.parameters->data();
}

std::vector<float> StateTensors::read(const std::string& name) const {
  const StatePlace place = state_place(state_, name);
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
    const ArenaLayout::Entry& entry = memory->arena.find(place.parameter);
    memory->device->write(entry.layout, values, arena_of(*memory, place) + entry.offset);
  }
}

std::vector<float> StateTensors::read_gradient(const std::string& parameter) const {
  return together(parameter, [](const Replica& replica) { return replica.gradients(); });
}

std::vector<float> StateTensors::together(
    const std::string& parameter, const std::function<const std::byte*(const Replica&)>& arena) const {
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
