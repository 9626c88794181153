#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "telar/comm/store/memory_region.h"
#include "telar/comm/store/store_frame.h"

namespace telar {

/// Memory that a member shares with a server on the same host: the arenas outgoing() and incoming(), a ring
/// of requests and a ring of answers. Requests and answers are frames without their payload, which is in the
/// arenas.
///
/// The member creates it: two regions, of outgoing(), and of what a server writes. It sends its process id
/// and their descriptors over the gRPC stream. The stream stays open, so each side notices when the other
/// is gone. The server opens the memory and proves by its random number that it sees the same memory. This
/// works for processes of one user on one host; otherwise frames go over the stream.
class StoreMemory {
 public:
  /// For the member. Returns null if the system has no such memory.
  static std::shared_ptr<StoreMemory> make(size_t floats);
  /// For the server. Returns null if `where` is not such memory with arenas of `floats`.
  static std::shared_ptr<StoreMemory> open(const std::string& where, size_t floats);
  /// Restricts construction to make() and open().
  class Key {
    friend class StoreMemory;
    Key() = default;
  };
  StoreMemory(Key key, const MemoryRegion& outgoing, const MemoryRegion& rest, size_t floats);
  ~StoreMemory();
  StoreMemory(const StoreMemory&) = delete;
  StoreMemory& operator=(const StoreMemory&) = delete;

  std::string where() const;
  uint64_t proof() const;
  std::span<float> outgoing() const;
  std::span<float> incoming() const;

  // For the member, which may have at most kMostRequests in transit.
  static constexpr uint32_t kMostRequests = 256;
  /// Before another server is told of it: takes rings and incoming() from the server before, which may only
  /// have been stopped. They stay at their addresses, with the same floats. Returns false if the system has
  /// no memory for that.
  bool renew();
  /// Empties the rings and lets the server begin. No server may be reading them at this moment.
  void begin();
  void put_request(const FrameHeader& header, std::span<const uint32_t> members);
  std::optional<FrameHeader> take_answer();
  void wait_for_answer(std::chrono::milliseconds longest);

  // For the server. take_request throws Error (user) if the member has corrupted the rings.
  /// Call before telling the member that its memory was found: it has not begun.
  void prepare();
  bool begun() const;
  struct Request {
    FrameHeader header;
    std::vector<uint32_t> members;
  };
  std::optional<Request> take_request();
  void wait_for_request(std::chrono::milliseconds longest);
  void put_answer(const FrameHeader& header);

 private:
  struct Control;

  static MemoryRegion create(size_t bytes);
  static std::shared_ptr<StoreMemory> of(const MemoryRegion& outgoing, const MemoryRegion& rest,
                                         size_t floats);
  Control& control() const;

  MemoryRegion outgoing_;
  MemoryRegion rest_;  ///< the control of the rings, and incoming()
  size_t floats_;
};

}  // namespace telar
