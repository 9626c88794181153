#pragma once

#include <string>
#include <vector>

#include "telar/cli/command_line.h"

namespace telar::cli {

/// Adds --set KEY=VALUE, which may be given any number of times.
void add_overrides(Verb& verb, std::vector<std::string>& overrides);

/// What is wrong with a file that will be written at the end, for Option::check: found before the work and
/// not after it. Empty: nothing. Throws Error (user) for an address.
std::string wrong_with_output(const std::string& file);

/// "loss 0.2345, accuracy 0.9210".
std::string metrics_text(const std::vector<std::string>& names, const std::vector<double>& means);

}  // namespace telar::cli
