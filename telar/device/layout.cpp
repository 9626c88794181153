#include "telar/device/layout.h"

#include <algorithm>

#include "telar/core/buffer.h"
#include "telar/core/error.h"
#include "telar/device/device.h"

namespace telar {

bool ArenaLayout::has(const std::string& name) const {
  return std::ranges::find(entries, name, &Entry::name) != entries.end();
}

const ArenaLayout::Entry& ArenaLayout::find(const std::string& name) const {
  for (const Entry& entry : entries) {
    if (entry.name == name) return entry;
  }
  throw run_error("there is no parameter '{}'", name);
}

ArenaLayout ArenaLayout::pack(const std::vector<std::pair<std::string, TensorLayout>>& tensors) {
  ArenaLayout arena;
  for (const auto& [name, layout] : tensors) {
    arena.entries.push_back({name, arena.bytes, layout});
    arena.bytes += align_up(layout.bytes);
  }
  return arena;
}

std::string Device::packed(const TensorLayout& layout) const {
  throw run_error("the layout {} of {} does not pass to other processes", layout.format, name());
}

TensorLayout Device::unpacked(const std::string& /*bytes*/) const {
  throw run_error("the layouts of {} do not pass to other processes", name());
}

}  // namespace telar
