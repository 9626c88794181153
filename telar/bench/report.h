#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "telar/bench/result.h"

namespace telar::bench {

/// A page that shows results and runs beside each other: one HTML file that needs nothing else, no network included. `sources`: files
/// that `telar bench … --json` has written, and run folders. Runs stand in one section, with their curves in one chart; each result has a
/// section of its own. Throws Error (user) for a source that is neither, with its path and what was expected.
std::string report_page(const std::vector<std::filesystem::path>& sources, const std::string& title);

/// The same of one result.
std::string report_page(const Result& result);

}  // namespace telar::bench
