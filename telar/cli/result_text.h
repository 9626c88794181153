#pragma once

#include <string>

#include "telar/bench/result.h"

namespace telar::cli {

/// The result as a table for the terminal, with a bar for how much of its limit each row reaches, and what must be known to trust it.
std::string result_text(const bench::Result& result);

/// "1.23 GB", "480 kFLOP": three digits and a decimal prefix.
std::string scaled(double number, const std::string& unit);

}  // namespace telar::cli
