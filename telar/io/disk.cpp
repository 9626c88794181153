#include "telar/io/disk.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cstddef>
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

void require_local(const std::filesystem::path& path) {
  const std::string& text = path.native();
  if (text.starts_with("~/"))
    throw user_error(
        "{}: only a shell replaces ~ by the home folder, and has not done so here; write the path in full (./~ is a folder of this name)",
        text);
  const size_t scheme = text.find("://");
  const auto of_scheme = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '+' || c == '-' || c == '.';
  };
  if (scheme == std::string::npos || scheme == 0 ||
      !std::all_of(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(scheme), of_scheme))
    return;
  throw user_error(
      "{} is an address, but telar reads and writes files and folders; mount the storage, and give the path of a folder in it",
      text);
}

void make_folder(const std::filesystem::path& path) {
  require_local(path);
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) throw disk_error("create the folder", path, error.value());
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
