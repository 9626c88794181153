#pragma once

#include <string>
#include <variant>
#include <vector>

#include "telar/device/device.h"
#include "telar/device/update_rules.h"

namespace telar {

/// Consecutive parameters with the same update rule: one pass over flat memory.
struct UpdateSection {
  size_t begin, end;               ///< byte offsets in the arena
  std::vector<size_t> parameters;  ///< end offset of each parameter
  std::string rule;                ///< name of the update operation
  Attributes attributes;
  std::vector<size_t> states;  ///< indices into UpdateBindings::states
  bool clipped;
};

/// An update graph as a sequence of passes over the arenas.
struct UpdateSections {
  std::vector<UpdateSection> sections;
  double max_norm = 0;  ///< limit for the norm of the mean gradient; 0: no clipping
};

UpdateSections sections_of(const Graph& update, const ArenaLayout& arena);

/// min(1, max_norm / norm of the mean gradient); 1 without clipping.
float clip_factor_of(double max_norm, double sum_of_squares, float samples);

using UpdateRule = std::variant<SgdRule, AdamRule, RmspropRule, AdagradRule, RunningAverageRule>;
/// The rule of a section with this step's numbers. Throws Error (run) for an unknown rule.
UpdateRule rule_of(const UpdateSection& section, const UpdateScalars& step, float scale);

}  // namespace telar
