#pragma once

#include <cstdint>
#include <string>

#include "telar/data/dataset.h"

namespace telar {

/// samples.json, a file of a run or checkpoint: the description of a sample. With it the model can be rebuilt
/// and can predict where the training data are not available.
/// `rules`: DataJob::rules.
std::string to_json(const SampleSpec& spec, int64_t rules);
/// The rules of reading by which a run was trained. Throws Error (user).
int64_t sample_rules_from_json(const std::string& text, const std::string& source);
/// `source` is the file, for messages. Throws Error (user).
SampleSpec sample_spec_from_json(const std::string& text, const std::string& source);

}  // namespace telar
