#pragma once

#include <nlohmann/json.hpp>

#include "telar/io/json_fields.h"
#include "telar/train/stream_evaluation.h"

namespace telar {

/// Conversion to and from JSON, as a part of state.json; doubles are preserved exactly. from_json throws
/// Error (user) for a field that is missing or out of range, and for fields that contradict each other.
nlohmann::ordered_json to_json(const StreamEvaluation& evaluation);
StreamEvaluation stream_evaluation_from_json(const JsonFields& fields);

}  // namespace telar
