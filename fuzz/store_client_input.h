#pragma once

#include <cmath>
#include <stdexcept>

#include "store_input.h"
#include "telar/comm/store/store_window.h"

// The part of fuzz/store_client.cpp that does not need libFuzzer, so that a test can run it on the corpus.

namespace telar::fuzz {

/// A client of a server of 64 floats. It asks for a read, a push and pull, a push to round 7, and a write.
class Client {
 public:
  static constexpr size_t kFloats = 64;

  Client() { ask(); }

  void hear_welcome(const Frame& frame) {
    const StoreWindow::Welcomed welcomed = window_.welcome(frame);
    if (welcomed.lost < 0) throw std::logic_error("a restart has brought updates");
    send();
  }
  void hear_answer(const Frame& frame) {
    const std::optional<std::span<float>> place = window_.place_of(frame.header);
    if (!place) return;
    frame.payload.copy_to(std::as_writable_bytes(*place));
    window_.note(frame.header);
    ++answers_;
    if (!window_.all_answered()) return;
    const StoreReport report = window_.finish();
    if (!std::isfinite(report.staleness) || report.staleness < 0 || report.lost_updates < 0)
      throw std::logic_error("an impossible report");
    ask();
  }
  size_t answers() const { return answers_; }
  const StoreLosses& losses() const { return window_.losses(); }
  const std::vector<float>& floats() const { return floats_; }

 private:
  void ask() {
    const std::span<float> all(floats_);
    window_.add({.header = {.kind = FrameKind::read, .begin = 0, .end = kFloats}, .into = all});
    window_.add({.header = {.flags = kPush | kPull, .begin = 0, .end = 32},
                 .from = all.first(32),
                 .into = all.first(32)});
    window_.add({.header = {.flags = kPush | kRound, .members = 1, .begin = 32, .end = 64, .round = 7},
                 .members = {1},
                 .from = all.last(32)});
    window_.add({.header = {.kind = FrameKind::write, .begin = 0, .end = kFloats}, .from = all});
    send();
  }
  void send() {
    window_.first_round();
    for (window_.skip_answered(); !window_.all_sent(); window_.sent())
      if (window_.next().header.version < -1) throw std::logic_error("a version that nobody has pulled");
  }

  StoreWindow window_;
  std::vector<float> floats_ = std::vector<float>(kFloats);
  size_t answers_ = 0;
};

/// Passes frames of a server to a client. Each consists of two bytes for its length and the bytes of that
/// length without the checksum. With the top bit of the length, it is an answer in shared memory: a header
/// alone. Returns the client. Throws Error where the client would end the connection.
inline Client receive_frames(std::span<const uint8_t> input) {
  constexpr size_t kMostFrames = 32;
  Client client;
  for (size_t i = 0; i < kMostFrames && input.size() >= 2; ++i) {
    const size_t word = input[0] | static_cast<size_t>(input[1]) << 8U;
    const auto rest = input.subspan(2);
    const size_t length = std::min(word & 0x7fffU, rest.size());
    const std::vector<uint8_t> bytes = sealed(rest.first(length));
    input = rest.subspan(length);
    if ((word & 0x8000U) != 0) {
      Frame frame;
      if (bytes.size() < sizeof(FrameHeader)) break;
      std::memcpy(static_cast<void*>(&frame.header), bytes.data(), sizeof(FrameHeader));
      check_frame(frame.header, {});
      client.hear_answer(frame);
      continue;
    }
    const std::vector<std::span<const std::byte>> parts{std::as_bytes(std::span(bytes))};
    const Frame frame = parse_frame(parts);
    if (frame.header.kind == FrameKind::welcome)
      client.hear_welcome(frame);
    else
      client.hear_answer(frame);
  }
  return client;
}

}  // namespace telar::fuzz
