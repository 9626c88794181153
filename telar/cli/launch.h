#pragma once

#include <string>
#include <vector>

namespace telar::cli {

/// Writes a woven script beside the one that it was made of (its imports and data paths stay right), starts it with the
/// launcher of its target, and removes it again. Returns the launcher's exit code.
int launch(const std::string& script, const std::string& woven, const std::string& target, int processes,
           const std::vector<std::string>& arguments);

}  // namespace telar::cli
