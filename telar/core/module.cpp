#include "telar/core/module.h"

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>
#include <vector>

namespace telar {

namespace {

namespace fs = std::filesystem;

std::vector<fs::path> folders() {
  std::vector<fs::path> folders;
  const char* named = std::getenv("TELAR_MODULES");  // NOLINT(concurrency-mt-unsafe): nobody writes it
  if (named != nullptr && *named != '\0') folders.emplace_back(named);
  const fs::path program = fs::read_symlink("/proc/self/exe").parent_path();
  folders.push_back(program);
  folders.push_back(program / "../lib/telar");
  return folders;
}

}  // namespace

LoadedModule load_module(const std::string& name, const char* entry) {
  LoadedModule loaded;
  for (const fs::path& folder : folders()) {
    const fs::path path = folder / (name + ".so");
    if (!fs::exists(path)) continue;
    void* module = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    loaded.entry = module != nullptr ? ::dlsym(module, entry) : nullptr;
    if (loaded.entry != nullptr) return {loaded.entry, {}};
    loaded.reason = ::dlerror();  // NOLINT(concurrency-mt-unsafe): glibc's is of the calling thread
  }
  return loaded;
}

}  // namespace telar
