#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "telar/core/error.h"

namespace telar {

using Bytes = std::vector<uint8_t>;

/// Size of a file in bytes. Throws Error (user) unless `path` is a regular, readable file.
uint64_t file_size_of(const std::string& path);

/// The contents of a file that the user has named, not decompressed. Throws Error (user) if it cannot be
/// read.
Bytes read_file(const std::string& path);

/// The contents of a file that was found in a folder before. Throws Error (run) if it cannot be opened or
/// read: neither the user nor the file's contents are the cause then, but a disk, a network or another
/// process.
Bytes read_listed_file(const std::string& path);

/// A file that is open for reading.
class OpenFile {
 public:
  explicit OpenFile(const std::string& path);
  ~OpenFile();
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  /// Negative if it could not be opened; errno has the reason.
  int descriptor() const { return descriptor_; }
  /// Reads from an offset on until `bytes` is full or the file ends; returns the number of bytes. `path` is
  /// for messages. Throws listed_file_error().
  size_t read(const std::string& path, uint64_t offset, std::span<std::byte> bytes) const;

 private:
  int descriptor_;
};

/// The error of a listed file that cannot be opened or read, with the system's reason (an errno).
Error listed_file_error(const std::string& path, int number);

/// At most the first `limit` bytes of a file, decompressed if it is gzip (recognised by its first bytes, not
/// by its name). The memory used depends on the actual contents, not on `limit`. Throws Error (user) when the
/// gzip data is damaged or ends too early.
Bytes read_gzip(const std::string& path, uint64_t limit);

/// The contents of a file that the user has named, decompressed if it is gzip.
Bytes read_unpacked(const std::string& path);

/// Upper bound of the bytes that read_gzip can return: the file's size, or for gzip data that size times
/// deflate's greatest ratio (1032).
uint64_t most_bytes_in(const std::string& path);

}  // namespace telar
