#pragma once

#include <filesystem>

namespace telar {

/// Where telar keeps what it has measured of this machine: $XDG_CACHE_HOME/telar, or ~/.cache/telar, or, where the environment names
/// neither, a folder for temporary files. It need not exist.
std::filesystem::path cache_folder();

}  // namespace telar
