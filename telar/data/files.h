#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace telar {

using Bytes = std::vector<uint8_t>;

/// Bytes of a file on disk. Throws Error (user) when there is no regular, readable file of that name.
uint64_t file_size_of(const std::string& path);

/// A whole file as it is.
Bytes read_file(const std::string& path);

/// At most the first `limit` bytes of a file, decompressed if it is gzip (told by its first bytes, not by its
/// name). The memory used follows what is really there, not `limit`. Throws Error (user) when the gzip data
/// is damaged or ends too early.
Bytes read_gzip(const std::string& path, uint64_t limit);

/// The most that read_gzip can give: the file's size, or for gzip data deflate's greatest ratio (1032) times
/// that.
uint64_t most_bytes_in(const std::string& path);

/// A product of extents and an element size that never wraps: UINT64_MAX stands for everything that is too
/// large.
uint64_t saturating_product(uint64_t a, uint64_t b);

}  // namespace telar
