#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "telar/graph/graph.h"

namespace telar {

/// A tensor of the state that training keeps: a parameter, or optimizer state of one.
struct StateName {
  std::string parameter;
  SlotName slot;  ///< of optimizer state: "momentum", "adam_m"; empty: the parameter itself
  /// Of a worker that trains alone: its own. None: that of all workers; where they differ, their mean.
  std::optional<int64_t> worker = std::nullopt;

  StateName(std::string of, SlotName in_slot = {});  // NOLINT(google-explicit-constructor): a parameter
  StateName(const char* of);                         // NOLINT(google-explicit-constructor)

  bool is_parameter() const { return slot.empty(); }
  /// Its name in a file of a checkpoint: "conv1.weight", "momentum/conv1.weight"; of worker 3:
  /// "3/momentum/conv1.weight".
  std::string text() const;

  bool operator==(const StateName&) const = default;
};

}  // namespace telar
