#pragma once

#include <filesystem>
#include <fstream>
#include <functional>
#include <istream>
#include <memory>
#include <string>
#include <vector>

#include "telar/comm/store/store_blocks.h"
#include "telar/core/error.h"
#include "telar/io/checksum.h"

namespace telar {

/// Identifies what a server holds.
struct StoreIdentity {
  std::string job;
  std::string description;
  StoreLayout layout;
  bool operator==(const StoreIdentity&) const = default;
};

/// Writes FOLDER/store.snapshot entirely or not at all, while updates continue; the snapshot that was there
/// becomes FOLDER/store.snapshot.previous. It copies block by block, each block in a consistent state. Throws
/// Error (run) if the file cannot be written.
///
/// File format: "TELARSTORE 3\n"; the length of a JSON text (8 bytes) and the text: job, description, pieces,
/// slots; a checksum; for each block the number of its segments (8 bytes), the segments (begin, end, version,
/// round: 8 bytes each), its floats of each arena, the number of runs of pieces of work that were applied to
/// it, the runs (begin and end of the range, first and last piece: 8 bytes each), and a checksum. A checksum
/// (8 bytes, Checksum) covers all bytes before it, those of earlier checksums left out. It is not
/// safetensors, whose header comes first: here, versions are only known when the block is written.
void save_snapshot(const std::string& folder, const StoreIdentity& identity, StoreBlocks& blocks);

/// Reads what save_snapshot has written. Every part is compared with its checksum before it is used.
class StoreSnapshot {
 public:
  /// Reads the part that describes the blocks. Throws Error (user) if it is damaged.
  explicit StoreSnapshot(const std::filesystem::path& path);
  /// The same, from the `bytes` bytes of a stream; messages contain `name`.
  StoreSnapshot(std::unique_ptr<std::istream> stream, uint64_t bytes, std::string name);

  const StoreIdentity& identity() const { return identity_; }
  /// The optimizer state that the snapshot contains.
  const std::vector<std::string>& slots() const { return slots_; }
  /// Call once, with blocks of this identity and these slots. Throws Error (user) if the snapshot is damaged.
  void read_into(StoreBlocks& blocks);

 private:
  void read_header();
  void read(void* out, size_t bytes);
  void read_checksum(const char* part);
  StoreWorks read_works();
  Error damaged(const std::string& why) const;

  std::string name_;
  std::unique_ptr<std::istream> stream_;
  uint64_t left_ = 0;  ///< bytes of the stream not yet read
  Checksum checksum_;
  StoreIdentity identity_;
  std::vector<std::string> slots_;
};

/// Loads the newest snapshot of a folder that is not damaged. `make` creates the blocks for an identity; it
/// is called again if those of a damaged snapshot were not filled. A damaged snapshot before which there is a
/// whole one of the same job is renamed to "….damaged", and `say` gets messages that name both. Returns false
/// if the folder has no snapshot.
///
/// Only damage makes it take the one before. Throws Error (user) if all are damaged, if a file cannot be
/// opened, or if this server cannot continue from a whole snapshot (`make` throws, or the optimizer has other
/// state).
bool load_snapshot(const std::string& folder, const std::function<StoreBlocks&(const StoreIdentity&)>& make,
                   const std::function<void(const std::string&)>& say);

}  // namespace telar
