#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace telar {

using Bytes = std::vector<uint8_t>;

/// Size of a file in bytes. Throws Error (user) unless `path` is a regular, readable file.
uint64_t file_size_of(const std::string& path);

/// The contents of a file, not decompressed.
Bytes read_file(const std::string& path);

/// At most the first `limit` bytes of a file, decompressed if it is gzip (recognised by its first bytes, not
/// by its name). The memory used depends on the actual contents, not on `limit`. Throws Error (user) when the
/// gzip data is damaged or ends too early.
Bytes read_gzip(const std::string& path, uint64_t limit);

/// Upper bound of the bytes that read_gzip can return: the file's size, or for gzip data that size times
/// deflate's greatest ratio (1032).
uint64_t most_bytes_in(const std::string& path);

/// A product of extents and an element size that never wraps: UINT64_MAX stands for any larger result.
uint64_t saturating_product(uint64_t a, uint64_t b);

}  // namespace telar
