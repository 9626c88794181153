#pragma once

#include <string>
#include <vector>

#include "telar/cli/command_line.h"
#include "telar/nn/metrics.h"

namespace telar::cli {

/// Adds --set KEY=VALUE, which may be given any number of times.
void add_overrides(Verb& verb, std::vector<std::string>& overrides);

/// What is wrong with a file that will be written at the end, for Option::check: found before the work and
/// not after it. Empty: nothing. Throws Error (user) for an address.
std::string wrong_with_output(const std::string& file);

/// "loss 0.2345, accuracy 0.9210".
std::string metrics_text(const Figures& figures, const std::vector<double>& values);

/// The figures that are no numbers, as tables with a line for each class; empty if there are none. `classes`:
/// their names; if there are none, they are numbered.
std::string tables_text(const Figures& figures, const std::vector<double>& values,
                        const std::vector<std::string>& classes);

}  // namespace telar::cli
