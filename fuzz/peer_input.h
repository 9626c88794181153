#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "telar/comm/peers/introduction.h"
#include "telar/comm/peers/peer_stream.h"
#include "telar/core/error.h"

// The part of fuzz/peer.cpp that does not need libFuzzer, so that a test can run it on the corpus.

namespace telar::fuzz {

/// The rest of an input, from which values are taken; zeros behind its end.
class PeerBytesLeft {
 public:
  explicit PeerBytesLeft(std::span<const uint8_t> bytes) : left_(bytes) {}

  bool empty() const { return left_.empty(); }
  std::string take(size_t bytes) {
    const auto taken = left_.first(std::min(bytes, left_.size()));
    left_ = left_.subspan(taken.size());
    return {taken.begin(), taken.end()};
  }
  template <typename Value>
  Value value() {
    Value value{};
    const std::string bytes = take(sizeof value);
    std::memcpy(&value, bytes.data(), bytes.size());
    return value;
  }

 private:
  std::span<const uint8_t> left_;
};

/// Brings frames, each with its bytes; those whose first byte is odd have a right checksum.
class FramesOfAPeer final : public PeerStream::Reader {
 public:
  explicit FramesOfAPeer(PeerBytesLeft& left) : left_(left) {}

  bool NextMessageSize(uint32_t* size) override {
    *size = sizeof(PeerFrame) + kPeerPart;
    return true;
  }
  bool Read(grpc::ByteBuffer* message) override {
    if (left_.empty()) return false;
    const auto how = left_.value<uint8_t>();
    auto frame = left_.value<PeerFrame>();
    const std::string bytes = left_.take(left_.value<uint16_t>());
    if (how % 2 == 1) seal(frame, std::as_bytes(std::span(bytes)));
    std::string all(reinterpret_cast<const char*>(&frame), sizeof frame);
    all += bytes;
    const size_t cut = how % all.size();
    const std::vector<grpc::Slice> slices{grpc::Slice(all.substr(0, cut)), grpc::Slice(all.substr(cut))};
    *message = grpc::ByteBuffer(slices.data(), slices.size());
    return true;
  }

 private:
  PeerBytesLeft& left_;
};

class NowhereToWrite final : public PeerStream::Writer {
 public:
  using PeerStream::Writer::Write;
  bool Write(const grpc::ByteBuffer& /*message*/, grpc::WriteOptions /*options*/) override { return true; }
};

/// Takes what a peer sends while up to seven messages are waited for. Throws std::logic_error if the end of
/// the connection has no reason.
inline void serve_peer(std::span<const uint8_t> input) {
  PeerBytesLeft left(input);
  struct Wanted {
    Lane lane;
    uint32_t tag;
    std::vector<std::byte> bytes;
    PeerInbox::Receive receive;
  };
  std::deque<Wanted> wanted;
  PeerStream stream("rank 1", [](bool /*lost*/) {});
  for (int messages = left.value<uint8_t>() % 8; messages > 0; --messages) {
    Wanted& one = wanted.emplace_back();
    one.lane = static_cast<Lane>(left.value<uint8_t>() % kLanes);
    one.tag = left.value<uint8_t>();
    one.bytes.resize(left.value<uint16_t>());
    one.receive.bytes = one.bytes;
    stream.inbox().start({.lane = one.lane, .tag = one.tag}, one.receive);
  }
  FramesOfAPeer reader(left);
  NowhereToWrite writer;
  stream.say_last(PeerFrame::Kind::goodbye, {});
  stream.serve(reader, writer, [] {});
  if (std::ranges::any_of(wanted,
                          [](const Wanted& one) { return one.lane != Lane::watch && !one.receive.done; }) &&
      stream.lost().empty() && !left.empty())
    throw std::logic_error("the connection has ended without a reason");
  for (Wanted& one : wanted)
    if (!one.receive.done) stream.inbox().cancel({.lane = one.lane, .tag = one.tag}, one.receive);
}

/// Reads what the first process answers to one that joins. Throws Error, or std::logic_error if it accepts a
/// rank that nobody has.
inline peers::Introduction introduced(std::span<const uint8_t> input) {
  peers::Introduction introduction;
  if (!introduction.ParseFromArray(input.data(), static_cast<int>(input.size())))
    throw run_error("gRPC ends a connection with such bytes");
  require_introduced(introduction);
  if (static_cast<int>(introduction.rank()) >= introduction.members_size())
    throw std::logic_error("a rank that nobody has");
  return introduction;
}

}  // namespace telar::fuzz
