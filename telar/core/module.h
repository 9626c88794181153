#pragma once

#include <string>

namespace telar {

/// What was found of a shared module, which is never unloaded again.
struct LoadedModule {
  void* entry = nullptr;  ///< of the function that was asked for; null when there is none
  std::string reason;     ///< why there is none, as the loader says it; empty: there is no such module here
};

/// Loads the module NAME.so from the folder of this program (a build) or from ../lib/telar beside it (an installation), or from the
/// folder that the environment names in TELAR_MODULES, which comes first (a program of another prefix), and looks for a function that
/// it exports. A module holds what needs libraries that telar itself can do without.
LoadedModule load_module(const std::string& name, const char* entry);

}  // namespace telar
