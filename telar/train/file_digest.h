#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

namespace telar {

/// The length and checksum of a file: enough to detect accidental truncation or change.
struct FileDigest {
  uint64_t bytes = 0;
  uint32_t crc32 = 0;
};

/// Throws Error (run) if the file cannot be read.
FileDigest digest_of(const std::filesystem::path& path);

/// Continues the checksum `before` over more bytes.
uint32_t crc32_of(std::string_view bytes, uint32_t before = 0);

/// Throws Error (user) if the digest differs: "… has 3 bytes; it was written with 800", "… has changed".
void require_digest(const std::filesystem::path& path, const FileDigest& right);

}  // namespace telar
