#include "telar/runtime/shared_state.h"

#include <fmt/format.h>

#include <algorithm>

#include "telar/core/error.h"

namespace telar {

namespace {

template <typename RangeOf>
ByteRanges ranges_of(const ByteRanges& buckets, const Group* group, const RangeOf& range_of) {
  if (group == nullptr) return buckets;
  ByteRanges ranges;
  for (const auto& [begin, end] : buckets) {
    const auto [from, to] = range_of((end - begin) / sizeof(float));
    if (from < to) ranges.emplace_back(begin + from * sizeof(float), begin + to * sizeof(float));
  }
  return ranges;
}

/// One after the other; neighbours are one slice.
std::vector<StateSlice> slices_of(ByteRanges ranges) {
  std::ranges::sort(ranges);
  std::vector<StateSlice> slices;
  size_t bytes = 0;
  for (const auto& [begin, end] : ranges) {
    if (!slices.empty() && slices.back().end == begin) {
      slices.back().end = end;
    } else {
      slices.push_back({begin, end, bytes});
    }
    bytes += end - begin;
  }
  return slices;
}

}  // namespace

ByteRanges shards_of(const ByteRanges& buckets, const Group* group) {
  return ranges_of(buckets, group, [group](size_t count) { return group->shard(count); });
}

ByteRanges parts_of(const ByteRanges& buckets, const Group* group) {
  return ranges_of(buckets, group, [group](size_t count) { return group->part(count); });
}

std::vector<KeptPiece> kept_by(const Program& program, int64_t worker) {
  std::vector<KeptPiece> kept;
  for (const Holding& holding : program.worker(worker).holdings)
    kept.push_back({piece_of(program, holding, worker), holding.copies});
  return kept;
}

size_t StateMemory::state_offset(size_t arena_offset) const {
  for (const StateSlice& slice : slices) {
    if (arena_offset >= slice.begin && arena_offset < slice.end)
      return slice.offset + (arena_offset - slice.begin);
  }
  throw run_error("the optimizer state of byte {} of the parameters is not kept here", arena_offset);
}

void SharedState::add_memory(const Program& program, int64_t worker, const Device& device,
                             const LayoutOf& layout_of, const std::vector<const Group*>& groups) {
  auto memory = std::make_unique<StateMemory>();
  memory->device = &device;
  memory->kept = kept_by(program, worker);
  memory->update = program.worker(worker).holdings.front().update;
  std::vector<std::pair<std::string, TensorLayout>> ordered;
  for (const auto& [piece, copies] : memory->kept) ordered.emplace_back(piece.variable, layout_of(piece));
  memory->arena = ArenaLayout::pack(ordered);
  memory->parameters = device.allocate(memory->arena.bytes, "parameters");
  for (const Bucket& bucket : program.buckets) {
    if (!memory->arena.has(bucket.parameters.front())) {
      memory->buckets.emplace_back(0, 0);
      continue;
    }
    const ArenaLayout::Entry& begin = memory->arena.find(bucket.parameters.front());
    const ArenaLayout::Entry& last = memory->arena.find(bucket.parameters.back());
    memory->buckets.emplace_back(begin.offset, last.offset + align_up(last.layout.bytes));
  }
  if (program.buckets.empty()) memory->buckets.emplace_back(0, memory->arena.bytes);
  ByteRanges kept{{0, memory->arena.bytes}};
  if (memory->update == Update::of_all) {
    kept.clear();
    for (const Group* group : groups) {
      const ByteRanges parts = parts_of(memory->buckets, group);
      kept.insert(kept.end(), parts.begin(), parts.end());
    }
  }
  memory->slices = slices_of(std::move(kept));
  size_t state_bytes = 0;
  for (const StateSlice& slice : memory->slices) state_bytes += slice.end - slice.begin;
  for (size_t i = 0; i < slots.size(); ++i)
    memory->states.push_back(device.allocate(state_bytes, "optimizer state"));
  memories.push_back(std::move(memory));
}

void SharedState::allocate(const Program& program, int64_t number_of_first,
                           const std::vector<const Device*>& devices, const std::vector<Layouts>& layouts,
                           const std::vector<const Group*>& groups) {
  slots = state_slots(program.update);
  const auto wanted_by = [&](size_t worker) {
    return [&of = layouts[worker], device = devices[worker]](const Piece& piece) {
      const auto wanted = of.find(piece.variable);  // training may not have what an evaluation has
      return wanted != of.end() ? wanted->second : device->plain_layout(piece.piece_shape());
    };
  };
  if (program.worker(number_of_first).home == StateHome::of_worker) {
    for (size_t w = 0; w < devices.size(); ++w) {
      add_memory(program, number_of_first + static_cast<int64_t>(w), *devices[w], wanted_by(w), groups);
      memory_of_worker_.push_back(w);
    }
    return;
  }
  std::map<std::string, size_t> first;  // worker of each memory
  for (size_t w = 0; w < devices.size(); ++w) {
    const int64_t number = number_of_first + static_cast<int64_t>(w);
    if (kept_by(program, number) != kept_by(program, number_of_first))
      throw run_error("workers {} and {} share a memory, but do not keep the same", number_of_first, number);
    first.try_emplace(devices[w]->memory_name(), w);
  }
  for (const auto& [name, w] : first) {
    const Device& device = *devices[w];
    const auto plain = [&](const Piece& piece) { return device.plain_layout(piece.piece_shape()); };
    add_memory(program, number_of_first + static_cast<int64_t>(w), device,
               first.size() == 1 ? LayoutOf(wanted_by(0)) : plain, groups);
  }
  for (const Device* device : devices) {
    const auto place = first.find(device->memory_name());
    memory_of_worker_.push_back(static_cast<size_t>(std::distance(first.begin(), place)));
  }
  const bool host = std::any_of(memories.begin(), memories.end(),
                                [](const auto& memory) { return memory->in_host_memory(); });
  if (memories.size() > 1 && !host) staging_ = Buffer(arena().bytes);
}

std::byte* SharedState::staging() {
  if (memories.size() == 1 || !memories.front()->shared()) return nullptr;
  for (const auto& memory : memories)
    if (memory->in_host_memory()) return memory->parameters->data();
  return staging_.data();
}

StatePlace state_place(const SharedState& state, const StateName& name) {
  if (name.is_parameter()) return {std::nullopt, name.parameter};
  const auto found = std::find(state.slots.begin(), state.slots.end(), name.slot);
  if (found == state.slots.end()) throw run_error("there is no optimizer state '{}'", name.text());
  return {static_cast<size_t>(found - state.slots.begin()), name.parameter};
}

std::string SharedState::layout_text() const {
  std::string text;
  for (const auto& memory : memories) {
    for (size_t i = 0; i < memory->arena.entries.size(); ++i) {
      const ArenaLayout::Entry& entry = memory->arena.entries[i];
      text += fmt::format("{}\t{} {} {} {}\n", memory->kept[i].piece.name(), entry.offset,
                          entry.layout.shape.str(), entry.layout.bytes, entry.layout.format);
    }
  }
  return text;
}

std::vector<StateName> state_names(const Program& program) {
  std::vector<StateName> names;
  for (const ParameterInfo& parameter : program.parameters) names.emplace_back(parameter.name);
  for (const Value& value : program.update.values())
    if (value.kind == ValueKind::optimizer_state) names.emplace_back(value.name, value.slot);
  return names;
}

Shape state_shape(const Program& program, const StateName& name) {
  for (const ParameterInfo& info : program.parameters) {
    if (info.name == name.parameter) return info.shape;
  }
  throw run_error("there is no parameter '{}'", name.parameter);
}

}  // namespace telar
