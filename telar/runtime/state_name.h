#pragma once

#include <string>

#include "telar/graph/graph.h"

namespace telar {

/// A tensor of the state that training keeps: a parameter, or optimizer state of one.
struct StateName {
  std::string parameter;
  SlotName slot;  ///< of optimizer state: "momentum", "adam_m"; empty: the parameter itself

  StateName(std::string of, SlotName in_slot = {});  // NOLINT(google-explicit-constructor): a parameter
  StateName(const char* of);                         // NOLINT(google-explicit-constructor)

  bool is_parameter() const { return slot.empty(); }
  /// Its name in the file of a checkpoint that has the parameters, or the optimizer state: "conv1.weight",
  /// "momentum/conv1.weight".
  std::string text() const;

  bool operator==(const StateName&) const = default;
};

}  // namespace telar
