#pragma once

#include <cstdint>
#include <filesystem>

namespace telar {

/// Enough to notice that a file was cut or changed by accident.
struct FileDigest {
  uint64_t bytes = 0;
  uint32_t crc32 = 0;
};

/// Throws Error (run) when the file cannot be read.
FileDigest digest_of(const std::filesystem::path& path);

/// Throws Error (user) when the file's digest is another: "… has 3 bytes; it was written with 800", "… has changed".
void require_digest(const std::filesystem::path& path, const FileDigest& right);

}  // namespace telar
