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
#include "telar/comm/store/memory_ring.h"
#include "telar/comm/store/store_frame.h"

// Only for sources in telar/comm/store.

namespace telar {

/// A frame of which only the head travels.
struct ChainEntry {
  uint64_t place = 0;  ///< among all frames of its way, from 1 on
  FrameHeader header;
};

/// Memory that two neighbours of a chain on one host share for the values of updates, and for the frames that
/// say where these are, and that all have them: a frame on the stream wakes several threads. The successor
/// makes it anew for each connection and reads the values, and the predecessor writes them. Values stay until
/// all servers behind have them, so nobody writes what is still to be read. A server that was given up writes
/// memory that nobody reads any more. keep(), offset_of() and values() are thread-safe; a ring has one writer
/// and one reader at a time.
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

  using Ring = MemoryRing<ChainEntry, 1024>;
  Ring& updates() const { return control().updates; }  ///< to the successor
  Ring& helds() const { return control().helds; }      ///< to the predecessor

  // For the predecessor.
  /// A copy of the values. Null if there is no room, or they are too few to be worth it.
  std::shared_ptr<const std::byte> keep(std::span<const std::byte> values);
  /// Of a copy that keep() has made; none: it is elsewhere.
  std::optional<size_t> offset_of(const std::byte* copy) const;
  size_t bytes() const { return region_.bytes; }

  /// For the successor. Throws Error (user) if they are not within the memory.
  std::span<const std::byte> values(uint64_t offset, size_t bytes) const;

 private:
  /// At the beginning of the region.
  struct Control {
    uint64_t proof = 0;
    Ring updates;
    Ring helds;
  };
  Control& control() const { return *static_cast<Control*>(region_.mapped); }
  static size_t control_units();
  void free(size_t unit, size_t units);

  const MemoryRegion region_;
  std::mutex mutex_;
  std::vector<bool> taken_;  ///< units
};

}  // namespace telar
