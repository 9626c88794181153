#pragma once

#include <optional>
#include <string>

#include "telar/graph/graph.h"

namespace telar {

/// The names of buffers as text, in printed graphs, in the programs of servers and in checkpoints:
/// "gradient/fc.bias", "metric/loss", "momentum/fc.bias". Only these two functions make and read them.
/// `slot`: of optimizer state.
std::string buffer_text(ValueKind kind, const std::string& name, const SlotName& slot = {});
/// The buffer with this name and type; none if the text is not the name of a buffer.
std::optional<Value> buffer_of_text(const std::string& text, const TensorType& type);

}  // namespace telar
