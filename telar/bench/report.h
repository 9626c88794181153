#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "telar/bench/result.h"

namespace telar::bench {

/// A page with results and runs side by side: one self-contained HTML file that needs no network. `sources`
/// are files that `telar bench … --json` has written, and run folders. All runs share one section, with their
/// curves in one chart; each result has its own section. Throws Error (user) with the path of a source that
/// is neither, and what was expected.
std::string report_page(const std::vector<std::filesystem::path>& sources, const std::string& title);

/// The same for one result.
std::string report_page(const Result& result);

}  // namespace telar::bench
