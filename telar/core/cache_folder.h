#pragma once

#include <filesystem>

namespace telar {

/// The folder in which telar keeps its measurements of this machine: $XDG_CACHE_HOME/telar, or
/// ~/.cache/telar. If neither XDG_CACHE_HOME nor HOME is set, it is in the folder for temporary files. The
/// folder need not exist.
std::filesystem::path cache_folder();

}  // namespace telar
