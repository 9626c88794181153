#pragma once

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "telar/comm/store/store_blocks.h"
#include "telar/core/error.h"

namespace telar {

/// Whose parameters a server holds.
struct StoreIdentity {
  std::string job;
  std::string description;
  StoreLayout layout;
  bool operator==(const StoreIdentity&) const = default;
};

/// Writes FOLDER/store.snapshot whole or not at all, while others go on with their updates: block by block, each as it was at one
/// moment. Throws Error (run) when it cannot be written.
///
/// The file: "TELARSTORE 1\n"; the length of a JSON text (8 bytes) and the text: job, description, pieces, slots; for each block the
/// number of its segments (8 bytes), the segments (begin, end, version, round: 8 bytes each), and its floats of each arena; "END\n".
/// It is no safetensors, whose header comes first: versions are known when the block is written.
void save_snapshot(const std::string& folder, const StoreIdentity& identity, StoreBlocks& blocks);

/// Reads what save_snapshot wrote.
class StoreSnapshot {
 public:
  /// Null when the folder has none. Throws Error (user) when it is damaged.
  static std::unique_ptr<StoreSnapshot> open(const std::string& folder);
  explicit StoreSnapshot(const std::filesystem::path& path);

  const StoreIdentity& identity() const { return identity_; }
  /// Once. Throws Error (user) when the snapshot is damaged or does not fit.
  void read_into(StoreBlocks& blocks);

 private:
  void read(void* out, size_t bytes);
  Error damaged(const std::string& why) const;

  std::filesystem::path path_;
  std::ifstream file_;
  uint64_t left_ = 0;  ///< bytes of the file that were not read
  StoreIdentity identity_;
  std::vector<std::string> slots_;
};

}  // namespace telar
