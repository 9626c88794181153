#pragma once

#include "telar/nn/model_builder.h"

namespace telar {

/// A learned row for each token. tokens: [N, T] or [N] i32, each in 0 … vocabulary−1; y: [N, T, width] or
/// [N, width]. Parameter "NAME.weight" [vocabulary, width], initially standard normal, as in PyTorch.
ValueId embedding(ModelBuilder& model, const std::string& name, ValueId tokens, int64_t vocabulary,
                  int64_t width);

}  // namespace telar
