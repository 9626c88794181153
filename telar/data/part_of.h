#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "telar/data/dataset.h"

namespace telar {

/// Samples of which this process has only a part: sample i of `part` is number `first` + i of `all`. read()
/// throws Error (run) for a sample that is not in the part.
DatasetPtr part_of(DatasetPtr part, int64_t first, int64_t all);

/// The samples with the classes of these names. Throws Error (user) unless their own are among them
/// (SampleSpec::class_names).
DatasetPtr with_classes(DatasetPtr data, const std::vector<std::string>& names);

}  // namespace telar
