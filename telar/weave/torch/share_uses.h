#pragma once

#include <set>
#include <string>

#include "telar/weave/torch/drawn_batches.h"
#include "telar/weave/torch/row_wise.h"
#include "telar/weave/torch/share_step.h"
#include "telar/weave/torch/shares.h"

namespace telar::weave {

/// What a script reads of a training step without a DataLoader besides its loss.
struct ShareUses {
  const std::set<const Node*>& statements;  ///< of the step
  const std::set<const Node*>& of_steps;    ///< of all steps
  const std::set<int>& followed;            ///< places that hold values of the step
  bool is_alone = true;                     ///< there is no other step
};

/// Notes in `share` which values need those of all samples. Whether all can be given them, and whether all
/// processes make the same steps; otherwise, `culprit` and `reason` say what prevents it.
bool read_share_uses(const Names& names, const ShareStep& step, RowWise& rows, DrawnBatches& drawn,
                     const ShareUses& uses, TorchShare& share, const Node*& culprit, std::string& reason);

}  // namespace telar::weave
