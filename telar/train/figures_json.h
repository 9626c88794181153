#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "telar/nn/metrics.h"

namespace telar {

enum class Lists : uint8_t { included, left_out };

/// Adds the values of figures as PREFIXname: numbers, lists, and matrices as lists of rows. NaN becomes null.
void add_figures(nlohmann::ordered_json& json, const std::string& prefix, const Figures& figures,
                 const std::vector<double>& values, Lists lists = Lists::included);

}  // namespace telar
