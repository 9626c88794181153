#include "telar/io/disk.h"

#include <fmt/format.h>

#include <array>
#include <cerrno>
#include <string>
#include <string_view>
#include <system_error>

namespace telar {

std::optional<uint64_t> free_disk_bytes(const std::filesystem::path& path) {
  std::error_code error;
  auto existing = std::filesystem::absolute(path, error);
  while (!error && !std::filesystem::exists(existing, error) && existing.has_relative_path()) {
    existing = existing.parent_path();
  }
  const auto space = std::filesystem::space(existing, error);
  if (error) return std::nullopt;
  return space.available;
}

std::string bytes_text(uint64_t bytes) {
  constexpr std::array<std::string_view, 5> kUnits = {"KiB", "MiB", "GiB", "TiB", "PiB"};
  if (bytes < 1024) return fmt::format("{} bytes", bytes);
  auto amount = static_cast<double>(bytes) / 1024;
  size_t unit = 0;
  for (; amount >= 1024 && unit + 1 < kUnits.size(); ++unit) amount /= 1024;
  return fmt::format("{:.{}f} {}", amount, amount < 10 ? 1 : 0, kUnits[unit]);
}

namespace {

std::string reason_of(int code) {
  if (code == ELOOP) return "it is a symbolic link, which telar does not follow here";
  return std::generic_category().message(code);
}

}  // namespace

Error disk_error(std::string_view action, const std::filesystem::path& path, int code) {
  const auto kind = code == EIO ? Error::Kind::run : Error::Kind::user;
  std::string text = fmt::format("cannot {} {}: {}", action, path.string(), reason_of(code));
  if (code == ENOSPC || code == EDQUOT) {
    const auto free = free_disk_bytes(path);
    text += fmt::format(" ({} free on that disk)", free ? bytes_text(*free) : "an unknown amount");
  }
  return {kind, text};
}

}  // namespace telar
