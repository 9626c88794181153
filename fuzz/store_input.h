#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "telar/comm/store/store_session.h"
#include "telar/core/error.h"

// The part of fuzz/store.cpp that does not need libFuzzer, so that a test can run it on the corpus.

namespace telar::fuzz {

/// Adds a constant, and reads all its arguments.
class Nudge : public StoreUpdate {
 public:
  const std::vector<std::string>& slots() const override { return slots_; }
  bool apply(const Memory& memory, size_t begin, size_t end, const float* gradient,
             const StoreScalars& scalars) const override {
    for (size_t i = begin; i < end; ++i) {
      memory.parameters[i] -= scalars.learning_rate * gradient[i - begin];
      memory.states[0][i] += scalars.step;
    }
    return true;
  }

 private:
  std::vector<std::string> slots_{"steps"};
};

/// A parameter server of 64 floats.
class Server {
 public:
  static constexpr size_t kFloats = 64;

  Server()
      : members_(std::chrono::seconds(5)),
        blocks_(StoreLayout::of({{.name = "w", .floats = kFloats}}), std::make_unique<Nudge>(), members_,
                2 * kBlockFloats * sizeof(float)),
        // A request that would have to wait gets one tick and is then ended.
        session_(blocks_, members_, peer_, 1, [this] { return looks_++ > 0; }) {
    members_.arrived(1, 0);
  }

  bool serve(const Frame& frame) {
    looks_ = 0;
    StoreSession::Answer answer = session_.handle(frame);
    // Answers that wait for other members belong to another thread.
    return !session_.ready(answer) ||
           session_.complete(answer, std::span(out_).first(frame.header.end - frame.header.begin));
  }

  /// Serves the requests that are in the memory now.
  void serve(StoreMemory& memory) {
    looks_ = 0;
    serve_memory(memory, session_, [] { return true; });
  }

 private:
  StoreMembers members_;
  StoreBlocks blocks_;
  StorePeer peer_;
  int looks_ = 0;
  StoreSession session_;
  std::vector<float> out_ = std::vector<float>(kFloats);
};

/// Inserts the checksum behind the other fields of the header, so that a fuzzer need not find it.
inline std::vector<uint8_t> sealed(std::span<const uint8_t> bytes) {
  constexpr size_t kFields = offsetof(FrameHeader, checksum);
  std::vector<uint8_t> out(bytes.begin(), bytes.end());
  if (bytes.size() < kFields) return out;
  FrameHeader header;
  std::memcpy(static_cast<void*>(&header), bytes.data(), kFields);
  const std::array rest{std::as_bytes(bytes.subspan(kFields))};
  const uint64_t checksum = frame_checksum(header, rest);
  const auto* value = reinterpret_cast<const uint8_t*>(&checksum);
  out.insert(out.begin() + kFields, value, value + sizeof(checksum));
  return out;
}

/// Passes frames of one member, number 1, to a server; the frames may contain anything but have a correct
/// checksum. Each consists of two bytes for its length and the bytes of that length without the checksum.
/// They are split in two pieces as the network may split them. Returns the number of frames served. Throws
/// Error (user) where the server would end the stream.
inline size_t serve_frames(std::span<const uint8_t> input) {
  constexpr size_t kMostFrames = 16;
  std::optional<Server> server;  // created late: this takes time, and most inputs of a fuzzer are no frames
  size_t served = 0;
  while (input.size() >= 2 && served < kMostFrames) {
    const size_t length = input[0] | static_cast<size_t>(input[1]) << 8U;
    const auto rest = input.subspan(2);
    const std::vector<uint8_t> bytes = sealed(rest.first(std::min(length, rest.size())));
    input = rest.subspan(std::min(length, rest.size()));
    // Copies, so that the address sanitizer checks both ends.
    const auto cut = static_cast<ptrdiff_t>(length % (bytes.size() + 1));
    const std::vector<uint8_t> first(bytes.begin(), bytes.begin() + cut);
    const std::vector<uint8_t> second(bytes.begin() + cut, bytes.end());
    const std::vector<std::span<const std::byte>> parts{std::as_bytes(std::span(first)),
                                                        std::as_bytes(std::span(second))};
    const Frame frame = parse_frame(parts);
    if (!server) server.emplace();
    if (!server->serve(frame)) break;
    ++served;
  }
  return served;
}

}  // namespace telar::fuzz
