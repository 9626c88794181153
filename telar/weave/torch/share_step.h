#pragma once

#include "telar/weave/python/names.h"

namespace telar::weave {

/// The place of a training step without a DataLoader.
struct ShareStep {
  const Node* backward = nullptr;    ///< its statement
  const Node* function = nullptr;    ///< around it; null in a module
  const Node* inner_loop = nullptr;  ///< the loop over steps, if the backward pass is directly in it
  const Node* scope = nullptr;       ///< that loop, or the function
  bool is_columns = false;           ///< text in columns
};

}  // namespace telar::weave
