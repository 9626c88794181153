#pragma once

#include "telar/data/batch_source.h"
#include "telar/runtime/session.h"

namespace telar {

/// A batch as a session takes it.
inline BatchView view_of(const Batch& batch) {
  BatchView view{.size = batch.size(), .sample = batch.ids().data(), .all = batch.all_samples};
  for (const BatchTensor& tensor : batch.tensors())
    view.inputs.push_back({tensor.name, batch.find(tensor.name)});
  return view;
}

}  // namespace telar
