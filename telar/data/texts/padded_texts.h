#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "telar/data/dataset.h"

namespace telar {

/// Token 0 pads a text at its end; token t of a vocabulary is t + 1.
inline constexpr int32_t kPadding = 0;

/// A text of a class as `length` tokens. `tokens`: of the vocabulary.
SampleSpec spec_of_padded(int64_t length, int64_t tokens, std::vector<std::string> class_names);

/// Texts, each at most spec.features[0] tokens of a vocabulary, as samples of that many.
DatasetPtr padded_texts(SampleSpec spec, std::vector<std::vector<int32_t>> texts,
                        std::vector<int32_t> labels);

}  // namespace telar
