#include "telar/runtime/state_name.h"

#include <fmt/format.h>

#include <utility>

#include "telar/graph/buffer_text.h"

namespace telar {

StateName::StateName(std::string of, SlotName in_slot) : parameter(std::move(of)), slot(std::move(in_slot)) {}

StateName::StateName(const char* of) : parameter(of) {}

std::string StateName::text() const {
  const std::string name =
      is_parameter() ? parameter : buffer_text(ValueKind::optimizer_state, parameter, slot);
  return worker ? fmt::format("{}/{}", *worker, name) : name;
}

}  // namespace telar
