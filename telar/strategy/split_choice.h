#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "telar/strategy/split_layers.h"

namespace telar {

/// A name pattern of layers ("classifier.*", "fc1"; '*' matches any text) and what becomes of them.
struct SplitRule {
  std::string pattern;
  bool whole = false;  ///< not divided; `split` does not count
  LayerSplit split = LayerSplit::columns;
};
/// Parses "PATTERN=columns", "PATTERN=rows" and "PATTERN=whole". Throws OptionError.
std::vector<SplitRule> split_rules(const std::vector<std::string>& texts);

/// Which layers to divide among `members` workers that compute a batch of `samples` together. The first rule
/// that matches a layer decides. Every other layer is divided if that saves communication: exchanging its
/// features takes fewer bytes than summing the gradients of its weights. Where a layer feeds only one other,
/// the two share the exchanges: the first is divided by columns, the second by rows. Throws Error (user) when
/// a rule matches no layer, and when nothing is divided.
LayerSplits choose_splits(const Graph& forward, int64_t samples, int64_t members,
                          const std::vector<SplitRule>& rules);

}  // namespace telar
