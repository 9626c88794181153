#pragma once

#include <string>

#include "telar/data/dataset.h"

namespace telar {

/// The file samples.json of a run or checkpoint: what a sample looks like, so that the model can be built again and can
/// predict where the training data are not.
std::string to_json(const SampleSpec& spec);
/// Throws Error (user), `source` being the file.
SampleSpec sample_spec_from_json(const std::string& text, const std::string& source);

}  // namespace telar
