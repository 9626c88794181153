#pragma once

#include <string>

namespace telar {

/// The result of loading a shared module. A loaded module is never unloaded.
struct LoadedModule {
  void* entry = nullptr;  ///< address of the requested function; null when it was not found
  std::string reason;     ///< why it was not found, in the loader's words; empty when there is no such module
};

/// Loads the module NAME.so and looks up the exported function `entry`. The folders searched are, in this
/// order: the one that the environment variable TELAR_MODULES names (for a program of another prefix), the
/// program's own (a build), and ../lib/telar beside it (an installation). Modules contain what depends on
/// libraries that telar can do without.
LoadedModule load_module(const std::string& name, const char* entry);

}  // namespace telar
