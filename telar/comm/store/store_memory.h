#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "telar/comm/store/store_frame.h"

namespace telar {

/// Memory that a member shares with the server of its host: the arenas outgoing() and incoming(), a ring of requests and one of answers.
/// Requests and answers are frames without their payload, which lies in the arenas.
///
/// The member makes it (a memfd, without a name in any folder, that cannot be made smaller) and says its process and descriptor over
/// the gRPC stream, which stays open: it tells each side when the other is gone. The server opens it through /proc, and shows by the random
/// number in it that it sees the same memory. That works for processes of one user on one host; otherwise frames go over the stream.
class StoreMemory {
 public:
  /// The member's: null when the system has no such memory.
  static std::shared_ptr<StoreMemory> make(size_t floats);
  /// The server's: null when `where` is no such memory with arenas of `floats`.
  static std::shared_ptr<StoreMemory> open(const std::string& where, size_t floats);
  /// For make() and open().
  class Key {
    friend class StoreMemory;
    Key() = default;
  };
  StoreMemory(Key key, int descriptor, void* mapped, size_t bytes, size_t floats);
  ~StoreMemory();
  StoreMemory(const StoreMemory&) = delete;
  StoreMemory& operator=(const StoreMemory&) = delete;

  std::string where() const;
  uint64_t proof() const;
  std::span<float> outgoing() const;
  std::span<float> incoming() const;

  // The member. It has at most kMostRequests on their way.
  static constexpr uint32_t kMostRequests = 256;
  /// Empties the rings and lets the server begin; no server looks at them at this moment.
  void begin();
  void put_request(const FrameHeader& header, std::span<const uint32_t> members);
  std::optional<FrameHeader> take_answer();
  void wait_for_answer(std::chrono::milliseconds longest);

  // The server; take_request throws Error (user) when the member has corrupted the rings.
  /// Before the member is told that its memory was found: it has not begun.
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

  int descriptor_;
  Control* control_;
  size_t bytes_;
  size_t floats_;
};

}  // namespace telar
