#include "telar/io/payload.h"

#include <algorithm>

#include "telar/core/error.h"

namespace telar {

/// Generated from the names of the files in payloads/ (cmake/Registry.cmake).
void register_all(PayloadRegistry& registry);

const std::vector<PayloadType>& payload_types() {
  static const PayloadRegistry registry = [] {
    PayloadRegistry all;
    register_all(all);
    return all;
  }();
  return registry.types();
}

uint16_t payload_number(const std::string& name) {
  if (name.empty()) return 0;
  const std::vector<PayloadType>& types = payload_types();
  const auto found = std::ranges::find(types, name, &PayloadType::name);
  if (found == types.end()) throw run_error("no file of telar/io/payloads defines the payload '{}'", name);
  return static_cast<uint16_t>(found - types.begin() + 1);
}

}  // namespace telar
