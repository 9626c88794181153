#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace telar::cli {

/// --set KEY=VALUE, any number of times.
void add_overrides(CLI::App& verb, std::vector<std::string>& overrides);

/// "loss 0.2345, accuracy 0.9210".
std::string metrics_text(const std::vector<std::string>& names, const std::vector<double>& means);

}  // namespace telar::cli
