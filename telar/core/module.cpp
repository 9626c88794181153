#include "telar/core/module.h"

#include <dlfcn.h>
#include <link.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <vector>

namespace telar {

namespace {

namespace fs = std::filesystem;

std::vector<fs::path> folders() {
  std::vector<fs::path> folders;
  const char* named = std::getenv("TELAR_MODULES");  // NOLINT(concurrency-mt-unsafe): no thread sets it
  if (named != nullptr && *named != '\0') folders.emplace_back(named);
  const fs::path program = fs::read_symlink("/proc/self/exe").parent_path();
  folders.push_back(program);
  folders.push_back(program / "../lib/telar");
  return folders;
}

/// Whether the file ends before its section table, which linkers write last. dlopen would read past the end
/// of such a file, which kills the program. Files that are not ELF are left to dlopen, which refuses them.
bool is_cut(const fs::path& path) {
  ElfW(Ehdr) header{};
  std::ifstream file(path, std::ios::binary);
  if (!file.read(reinterpret_cast<char*>(&header), sizeof(header))) return false;
  const uint64_t sections = uint64_t{header.e_shnum} * header.e_shentsize;
  return std::string_view(reinterpret_cast<const char*>(header.e_ident), SELFMAG) == ELFMAG &&
         header.e_shoff + sections > fs::file_size(path);
}

}  // namespace

LoadedModule load_module(const std::string& name, const char* entry) {
  LoadedModule loaded;
  for (const fs::path& folder : folders()) {
    const fs::path path = folder / (name + ".so");
    if (!fs::exists(path)) continue;
    if (is_cut(path)) {
      loaded.reason = path.string() + ": the file is cut off; install it again";
      continue;
    }
    void* module = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    loaded.entry = module != nullptr ? ::dlsym(module, entry) : nullptr;
    if (loaded.entry != nullptr) return {loaded.entry, {}};
    loaded.reason = ::dlerror();  // NOLINT(concurrency-mt-unsafe): per thread in glibc
  }
  return loaded;
}

}  // namespace telar
