#pragma once

#include "telar/data/dataset.h"

namespace telar {

struct SyntheticOptions {
  int64_t samples = 1000;
  Shape features = {1, 28, 28};  ///< [C, H, W] or any other shape; for tokens a sequence length [T]
  int64_t classes = 10;          ///< 0: regression to one f32 target, a linear function of the features
  uint64_t seed = 0;
  int64_t first = 0;       ///< number of the first sample: a test set continues where the training set ends
  int64_t vocabulary = 0;  ///< > 0: token sequences, i32 ids 0 … vocabulary-1
};

/// Artificial samples that can be learned. Either unit normal noise around a mean that depends on the class
/// and is smooth enough for convolutions, or tokens, half of which come from the class's own part of the
/// vocabulary. Sample i is of class i mod classes. Samples are computed when read, so memory and start-up
/// time are negligible. The same seed and number give the same sample. Throws Error (user) for options out of
/// range.
DatasetPtr synthetic(const SyntheticOptions& options);

}  // namespace telar
