#pragma once

#include <string>
#include <variant>
#include <vector>

#include "telar/device/device.h"
#include "telar/device/update_rules.h"

namespace telar {

/// Parameters with the same rule that lie one behind the other: one pass over flat memory.
struct UpdateSection {
  size_t begin, end;               ///< bytes in the arena
  std::vector<size_t> parameters;  ///< where each of them ends
  std::string rule;                ///< name of the operation
  Attributes attributes;
  std::vector<size_t> states;  ///< indices into UpdateBindings::states
  bool clipped;
};

/// An update graph as passes over the arenas, in their order.
struct UpdateSections {
  std::vector<UpdateSection> sections;
  double max_norm = 0;  ///< of the mean gradient; 0: no clipping
};

UpdateSections sections_of(const Graph& update, const ArenaLayout& arena);

/// min(1, max_norm / norm of the mean gradient); 1 without clipping.
float clip_factor_of(double max_norm, double sum_of_squares, float samples);

using UpdateRule = std::variant<SgdRule, AdamRule, RmspropRule, AdagradRule, RunningAverageRule>;
/// What a section computes with in this step. Throws Error (run) for a rule that devices do not know.
UpdateRule rule_of(const UpdateSection& section, const UpdateScalars& scalars, float scale);

}  // namespace telar
