#pragma once

#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

// Only for sources in telar/comm/store.

namespace telar {

/// A memfd, which has no name in any folder and cannot change its size, and its mapping. Another process of
/// this user on this host opens it through /proc. Its owner calls release().
struct MemoryRegion {
  int descriptor = -1;
  void* mapped = nullptr;  ///< null: there is none
  size_t bytes = 0;

  /// Its pages exist only after allocate(): a lack of memory would otherwise be a SIGBUS.
  static MemoryRegion create(size_t bytes);
  /// None if the descriptor `theirs` of that process is not such memory of this size.
  static MemoryRegion open(uint64_t process, uint64_t theirs, size_t bytes);
  /// Returns false if the system has no memory for that.
  bool allocate() const { return allocate(bytes); }
  bool allocate(size_t first) const;
  void release() const;
};

/// The numbers of a text such as "17:3"; none if it is not exactly these.
template <size_t n>
std::optional<std::array<uint64_t, n>> numbers_in(std::string_view text) {
  std::array<uint64_t, n> numbers{};
  for (size_t i = 0; i < n; ++i) {
    const size_t end = i + 1 < n ? text.find(':') : text.size();
    if (end == std::string_view::npos) return std::nullopt;
    const auto [stop, error] = std::from_chars(text.data(), text.data() + end, numbers[i]);
    if (error != std::errc() || stop != text.data() + end) return std::nullopt;
    text.remove_prefix(i + 1 < n ? end + 1 : end);
  }
  return numbers;
}

}  // namespace telar
