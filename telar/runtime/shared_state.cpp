#include "telar/runtime/shared_state.h"

#include <fmt/format.h>

#include <algorithm>

#include "telar/core/error.h"

namespace telar {

void SharedState::allocate(const Program& program, const std::map<std::string, TensorLayout>& layouts) {
  std::vector<std::pair<std::string, TensorLayout>> ordered;
  for (const ParameterInfo& parameter : program.parameters)
    ordered.emplace_back(parameter.name, layouts.at(parameter.name));
  arena = ArenaLayout::pack(ordered);
  parameters = Buffer(arena.bytes);
  if (program.micro_batches > 0) gradients = Buffer(arena.bytes);
  slots = state_slots(program.update);
  for (size_t i = 0; i < slots.size(); ++i) states.emplace_back(arena.bytes);
  for (const Bucket& bucket : program.buckets) {
    const ArenaLayout::Slot& first = arena.find(bucket.parameters.front());
    const ArenaLayout::Slot& last = arena.find(bucket.parameters.back());
    buckets.emplace_back(first.offset, last.offset + align_up(last.layout.bytes));
  }
  if (buckets.empty()) buckets.emplace_back(0, arena.bytes);
}

SharedState::Place SharedState::find(const std::string& name) const {
  const size_t slash = name.find('/');
  if (slash == std::string::npos) {
    const ArenaLayout::Slot& slot = arena.find(name);
    return {parameters.data() + slot.offset, &slot};
  }
  const auto found = std::find(slots.begin(), slots.end(), name.substr(0, slash));
  if (found == slots.end()) throw run_error("there is no optimizer state '{}'", name);
  const ArenaLayout::Slot& slot = arena.find(name.substr(slash + 1));
  return {states[static_cast<size_t>(found - slots.begin())].data() + slot.offset, &slot};
}

std::string SharedState::layout_text() const {
  std::string text;
  for (const ArenaLayout::Slot& slot : arena.slots) {
    text += fmt::format("{} {} {} {} {}\n", slot.name, slot.offset, slot.layout.shape.str(),
                        slot.layout.bytes, slot.layout.format);
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
