#pragma once

#include <set>
#include <string>
#include <string_view>

#include "telar/weave/torch/program.h"

namespace telar::weave {

/// What depends on the batch, or on random numbers, within a loop over a loader, and thus differs between the
/// processes: names, and attributes by their text (`self.loss`). The number of a batch (of enumerate) is no
/// such value.
class BatchValues {
 public:
  /// `with_sizes`: whether the size of a batch counts. It is the same in all processes.
  BatchValues(const Names& names, const TorchLoop& loop, bool with_sizes);

  /// Whether an expression depends on the batch.
  bool are_in(const Node& expression) const;
  bool contain(std::string_view text) const { return texts_.contains(text); }

 private:
  void bind(const Node& target);
  bool is_size(const Node& node) const;

  const Names& names_;
  bool with_sizes_;
  std::set<std::string_view> texts_;
};

}  // namespace telar::weave
