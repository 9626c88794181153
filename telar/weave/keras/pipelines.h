#pragma once

#include <vector>

#include "telar/weave/keras/writer.h"

namespace telar::weave {

/// The source of a tf.data pipeline: the expression to divide, and the calls of batch() downstream of it.
struct PipelineSource {
  const Node* expression = nullptr;
  std::vector<const Node*> batches;
  std::vector<const Node*> makers = {};  ///< calls which make batches of files or of a series
  bool shuffles = false;                 ///< something upstream, with or without a seed
  bool is_argument = false;              ///< arrays that are passed to a function which creates a dataset
};

/// Follows the one way by which a dataset comes to an expression, as far up as it can be divided. `met`: if
/// it is not null, it receives all expressions on the way, also if this throws. Throws Refusal if there are
/// several ways.
PipelineSource follow_pipeline(const KerasWeaving& weaving, const Node* expression,
                               std::vector<const Node*>* met = nullptr);
/// Finds the batches of a pipeline, and whether it shuffles, on every way by which a dataset may come to an
/// expression: through all assignments of a variable, all values that a function returns, all its callers.
PipelineSource follow_every_way(const KerasWeaving& weaving, const Node* expression);
/// The call that makes the batches which a dataset consists of: its last batch(), or the function of Keras
/// that makes it of files or a series.
struct MadeBatches {
  const Node* call = nullptr;  ///< null if there are single samples, or if that cannot be told
  bool are_counted = false;    ///< behind it, take() or skip() count them
};
MadeBatches batches_of(const KerasWeaving& weaving, const Node* expression);

}  // namespace telar::weave
