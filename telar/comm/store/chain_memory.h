#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "telar/comm/store/memory_region.h"

// Only for sources in telar/comm/store.

namespace telar {

/// Memory that two neighbours of a chain on one host share for the values of updates. The successor makes it
/// anew for each connection and reads it, and the predecessor writes it: frames then say only where the
/// values are. Values stay until all servers behind have them, so nobody writes what is still to be read. A
/// server that was given up writes memory that nobody reads any more. Thread-safe.
class ChainMemory : public std::enable_shared_from_this<ChainMemory> {
 public:
  /// For the successor. Null if the system has no such memory.
  static std::shared_ptr<ChainMemory> make(size_t bytes);
  /// For the predecessor. Null if `where` is no such memory of this host, or there is no memory for it.
  static std::shared_ptr<ChainMemory> open(const std::string& where);
  /// Restricts construction to make() and open().
  class Key {
    friend class ChainMemory;
    Key() = default;
  };
  ChainMemory(Key key, const MemoryRegion& region);
  ~ChainMemory() { region_.release(); }
  ChainMemory(const ChainMemory&) = delete;
  ChainMemory& operator=(const ChainMemory&) = delete;

  std::string where() const;

  // For the predecessor.
  /// A copy of the values. Null if there is no room, or they are too few to be worth it.
  std::shared_ptr<const std::byte> keep(std::span<const std::byte> values);
  /// Of a copy that keep() has made; none: it is elsewhere.
  std::optional<size_t> offset_of(const std::byte* copy) const;
  size_t bytes() const { return region_.bytes; }

  /// For the successor. Throws Error (user) if they are not within the memory.
  std::span<const std::byte> values(uint64_t offset, size_t bytes) const;

 private:
  uint64_t& proof() const { return *static_cast<uint64_t*>(region_.mapped); }
  void free(size_t unit, size_t units);

  const MemoryRegion region_;  ///< the first unit has the proof
  std::mutex mutex_;
  std::vector<bool> taken_;  ///< units
};

}  // namespace telar
