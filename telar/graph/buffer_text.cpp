#include "telar/graph/buffer_text.h"

#include "telar/core/error.h"

namespace telar {

namespace {

const std::string kGradient = "gradient";
const std::string kMetric = "metric";

}  // namespace

std::string buffer_text(ValueKind kind, const std::string& name, const SlotName& slot) {
  switch (kind) {
    case ValueKind::gradient: return kGradient + "/" + name;
    case ValueKind::metric: return kMetric + "/" + name;
    case ValueKind::optimizer_state: return slot + "/" + name;
    default: throw run_error("'{}' is not a buffer", name);
  }
}

std::optional<Value> buffer_of_text(const std::string& text, const TensorType& type) {
  const size_t slash = text.find('/');  // a parameter's name may contain others
  if (slash == 0 || slash == std::string::npos || slash + 1 == text.size()) return std::nullopt;
  const std::string role = text.substr(0, slash);
  Value buffer{
      .name = text.substr(slash + 1), .type = type, .kind = ValueKind::optimizer_state, .slot = role};
  if (role != kGradient && role != kMetric) return buffer;
  buffer.kind = role == kGradient ? ValueKind::gradient : ValueKind::metric;
  buffer.slot.clear();
  return buffer;
}

}  // namespace telar
