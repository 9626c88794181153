#include "telar/runtime/shared_state.h"

#include <fmt/format.h>

#include <algorithm>

#include "telar/core/error.h"

namespace telar {

void SharedState::add_memory(const Program& program, const Device& device,
                             const std::vector<std::pair<std::string, TensorLayout>>& parameters) {
  auto memory = std::make_unique<StateMemory>();
  memory->device = &device;
  memory->arena = ArenaLayout::pack(parameters);
  memory->parameters = device.allocate(memory->arena.bytes, "parameters");
  for (size_t i = 0; i < slots.size(); ++i)
    memory->states.push_back(device.allocate(memory->arena.bytes, "optimizer state"));
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
  memories.push_back(std::move(memory));
}

void SharedState::allocate(const Program& program, const std::vector<const Device*>& devices,
                           const std::vector<Layouts>& layouts) {
  slots = state_slots(program.update);
  if (program.keeps_apart()) {
    for (size_t w = 0; w < devices.size(); ++w) {
      std::vector<std::pair<std::string, TensorLayout>> ordered;
      for (const Holding& holding : program.workers[w].holdings)
        ordered.emplace_back(holding.piece.variable, layouts[w].at(holding.piece.variable));
      add_memory(program, *devices[w], ordered);
      memories.back()->holdings = &program.workers[w].holdings;
      memory_of_worker_.push_back(w);
    }
    return;
  }
  std::map<std::string, const Device*> first;  // of each memory
  for (const Device* device : devices) first.try_emplace(device->memory_name(), device);
  for (const auto& [name, device] : first) {
    std::vector<std::pair<std::string, TensorLayout>> ordered;
    for (const ParameterInfo& parameter : program.parameters) {
      ordered.emplace_back(parameter.name, first.size() == 1 ? layouts[0].at(parameter.name)
                                                             : device->plain_layout(parameter.shape));
    }
    add_memory(program, *device, ordered);
  }
  for (const Device* device : devices) {
    const auto place = first.find(device->memory_name());
    memory_of_worker_.push_back(static_cast<size_t>(std::distance(first.begin(), place)));
  }
  if (program.micro_batches > 0) gradients = Buffer(arena().bytes);
  const bool host = std::any_of(memories.begin(), memories.end(),
                                [](const auto& memory) { return memory->in_host_memory(); });
  if (memories.size() > 1 && !host) staging_ = Buffer(arena().bytes);
}

std::byte* SharedState::staging() {
  if (memories.size() == 1 || memories.front()->holdings != nullptr) return nullptr;
  for (const auto& memory : memories)
    if (memory->in_host_memory()) return memory->parameters->data();
  return staging_.data();
}

StatePlace state_place(const SharedState& state, const std::string& name) {
  const size_t slash = name.find('/');
  if (slash == std::string::npos) return {std::nullopt, name};
  const auto found = std::find(state.slots.begin(), state.slots.end(), name.substr(0, slash));
  if (found == state.slots.end()) throw run_error("there is no optimizer state '{}'", name);
  return {static_cast<size_t>(found - state.slots.begin()), name.substr(slash + 1)};
}

std::string SharedState::layout_text() const {
  std::string text;
  const std::vector<Holding>* holdings = memories.front()->holdings;
  for (size_t i = 0; i < arena().entries.size(); ++i) {
    if (holdings != nullptr && (*holdings)[i].copies != kAllWorkers) break;  // these come last
    const ArenaLayout::Entry& entry = arena().entries[i];
    text += fmt::format("{} {} {} {} {}\n", entry.name, entry.offset, entry.layout.shape.str(),
                        entry.layout.bytes, entry.layout.format);
  }
  return text;
}

std::vector<std::string> state_names(const Program& program) {
  std::vector<std::string> names;
  for (const ParameterInfo& parameter : program.parameters) names.push_back(parameter.name);
  for (const Value& value : program.update.values()) {
    if (value.kind == ValueKind::buffer && !value.name.starts_with("gradient/")) names.push_back(value.name);
  }
  return names;
}

Shape state_shape(const Program& program, const std::string& name) {
  const std::string parameter = name.substr(name.find('/') == std::string::npos ? 0 : name.find('/') + 1);
  for (const ParameterInfo& info : program.parameters) {
    if (info.name == parameter) return info.shape;
  }
  throw run_error("there is no parameter '{}'", parameter);
}

}  // namespace telar
