#include "telar/core/attributes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace telar {

Attributes Attributes::with(const std::string& name, Attribute value) const {
  Attributes changed = *this;
  changed.set(name, std::move(value));
  return changed;
}

std::string Attributes::str() const {
  if (entries_.empty()) return "";
  std::vector<std::string> parts;
  for (const auto& [name, value] : entries_) {
    parts.push_back(name + "=" + std::visit([](const auto& v) { return fmt::format("{}", v); }, value));
  }
  return fmt::format("{{{}}}", fmt::join(parts, ", "));
}

}  // namespace telar
