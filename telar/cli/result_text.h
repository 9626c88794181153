#pragma once

#include <string>

#include "telar/bench/result.h"

namespace telar::cli {

/// The result as a table for the terminal, with a bar for how much of its limit each row reaches, and what must be known to trust it.
std::string result_text(const bench::Result& result);

}  // namespace telar::cli
