#pragma once

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "telar/comm/store/store_blocks.h"
#include "telar/core/error.h"

namespace telar {

/// Identifies what a server holds.
struct StoreIdentity {
  std::string job;
  std::string description;
  StoreLayout layout;
  bool operator==(const StoreIdentity&) const = default;
};

/// Writes FOLDER/store.snapshot entirely or not at all, while updates continue. It copies block by block,
/// each block in a consistent state. Throws Error (run) if the file cannot be written.
///
/// File format: "TELARSTORE 1\n"; the length of a JSON text (8 bytes) and the text: job, description, pieces,
/// slots; for each block the number of its segments (8 bytes), the segments (begin, end, version, round: 8
/// bytes each), and its floats of each arena; "END\n". It is not safetensors, whose header comes first: here,
/// versions are only known when the block is written.
void save_snapshot(const std::string& folder, const StoreIdentity& identity, StoreBlocks& blocks);

/// Reads a file written by save_snapshot.
class StoreSnapshot {
 public:
  /// Returns null if the folder has no snapshot. Throws Error (user) if it is damaged.
  static std::unique_ptr<StoreSnapshot> open(const std::string& folder);
  explicit StoreSnapshot(const std::filesystem::path& path);

  const StoreIdentity& identity() const { return identity_; }
  /// Call once. Throws Error (user) if the snapshot is damaged or does not match the blocks.
  void read_into(StoreBlocks& blocks);

 private:
  void read(void* out, size_t bytes);
  Error damaged(const std::string& why) const;

  std::filesystem::path path_;
  std::ifstream file_;
  uint64_t left_ = 0;  ///< bytes of the file not yet read
  StoreIdentity identity_;
  std::vector<std::string> slots_;
};

}  // namespace telar
