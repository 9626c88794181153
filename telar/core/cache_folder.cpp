#include "telar/core/cache_folder.h"

#include <cstdlib>

namespace telar {

std::filesystem::path cache_folder() {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  if (cache != nullptr && *cache != '\0') return std::filesystem::path(cache) / "telar";
  const char* home = std::getenv("HOME");
  if (home != nullptr && *home != '\0') return std::filesystem::path(home) / ".cache/telar";
  std::error_code none;
  const std::filesystem::path temporary = std::filesystem::temp_directory_path(none);
  return (none ? std::filesystem::path("/tmp") : temporary) / "telar";
}

}  // namespace telar
