#pragma once

#include "telar/data/batch_source.h"
#include "telar/runtime/session.h"

namespace telar {

/// A batch as a session takes it: the tensors "x" and "label", and the ids.
inline BatchView view_of(const Batch& batch) {
  return {.size = batch.size(),
          .x = batch.find("x"),
          .label = batch.find("label"),
          .sample = batch.ids().data(),
          .all = batch.all_samples};
}

}  // namespace telar
