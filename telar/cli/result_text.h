#pragma once

#include <string>

#include "telar/bench/result.h"

namespace telar::cli {

/// The result as a table for the terminal. A bar shows how close each row comes to its limit. Below are
/// remarks and warnings, for example that the machine was busy.
std::string result_text(const bench::Result& result);

}  // namespace telar::cli
