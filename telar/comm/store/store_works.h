#pragma once

#include <cstddef>
#include <map>
#include <utility>

#include "telar/core/number_set.h"

namespace telar {

/// By range, the pieces of work (StoreExchange::work) that were applied to it. A piece is pushed again in the
/// same ranges, because they follow from the layout.
using StoreWorks = std::map<std::pair<size_t, size_t>, NumberSet>;

}  // namespace telar
