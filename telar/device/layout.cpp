#include "telar/device/layout.h"

#include "telar/core/buffer.h"
#include "telar/core/error.h"

namespace telar {

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

}  // namespace telar
