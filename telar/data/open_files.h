#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "telar/data/files.h"

namespace telar {

/// Files of which pieces are read, in any order. A file is opened when it is first read. If more than `most`
/// are open, the one that was opened first is closed. Thread-safe.
class OpenFiles {
 public:
  explicit OpenFiles(std::vector<std::string> paths, size_t most = 256);

  /// Reads `bytes.size()` bytes from an offset on. Throws Error (run) if the file cannot be opened or read,
  /// or ends before.
  void read(size_t file, uint64_t offset, std::span<std::byte> bytes) const;

 private:
  std::shared_ptr<const OpenFile> opened(size_t file) const;

  std::vector<std::string> paths_;
  size_t most_;
  mutable std::mutex mutex_;                                    ///< guards what follows
  mutable std::vector<std::shared_ptr<const OpenFile>> files_;  ///< null: not open
  mutable std::deque<size_t> order_;                            ///< in which they were opened
};

}  // namespace telar
