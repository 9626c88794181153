#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace telar {

constexpr int kDeepestJson = 16;

/// The JSON of a text that others may have written. Discarded (`is_discarded()`) where it is not JSON or has
/// more than `kDeepestJson` levels, which sets `deep`: functions that copy or print values recurse, and would
/// exhaust the stack. `Json`: nlohmann::json or nlohmann::ordered_json.
template <typename Json>
Json shallow_json(const std::string& text, bool* deep = nullptr) {
  bool too_deep = false;
  const auto keep = [&too_deep](int depth, typename Json::parse_event_t /*event*/, const Json& /*value*/) {
    too_deep = too_deep || depth > kDeepestJson;
    return depth <= kDeepestJson;  // deeper values are dropped when they are met
  };
  Json value = Json::parse(text, keep, false);
  if (deep != nullptr) *deep = too_deep;
  return too_deep ? Json(Json::value_t::discarded) : value;
}

}  // namespace telar
