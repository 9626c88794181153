#include "telar/comm/store/store_frame.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "telar/comm/store/store_ledger.h"
#include "telar/core/error.h"
#include "telar/io/checksum.h"
#include "telar/io/payload.h"

namespace telar {
namespace {

static_assert(std::endian::native == std::endian::little, "frames are little-endian");

/// Takes bytes from the front of several pieces.
class Taker {
 public:
  explicit Taker(std::span<const std::span<const std::byte>> parts) : parts_(parts.begin(), parts.end()) {}

  bool take(std::span<std::byte> out) {
    while (!out.empty()) {
      if (next_ == parts_.size()) return false;
      std::span<const std::byte>& part = parts_[next_];
      const size_t count = std::min(out.size(), part.size());
      if (count > 0) std::memcpy(out.data(), part.data(), count);
      out = out.subspan(count);
      part = part.subspan(count);
      if (part.empty()) ++next_;
    }
    return true;
  }

  std::span<const std::span<const std::byte>> rest() const { return std::span(parts_).subspan(next_); }

 private:
  std::vector<std::span<const std::byte>> parts_;
  size_t next_ = 0;
};

Error damaged(const std::string& why) { return user_error("a damaged frame: {}", why); }

uint8_t flags_allowed(FrameKind kind) {
  switch (kind) {
    case FrameKind::exchange: return kPush | kPull | kRound;
    case FrameKind::answer: return kPull | kLate | kNotFinite;
    case FrameKind::hello: return kWhole;
    default: return 0;
  }
}

bool carries_floats(const FrameHeader& header) {
  switch (header.kind) {
    case FrameKind::exchange: return (header.flags & kPush) != 0;
    case FrameKind::answer: return (header.flags & kPull) != 0;
    case FrameKind::write:
    case FrameKind::fill:
    case FrameKind::update: return true;
    default: return false;
  }
}

void check_range(const FrameHeader& header) {
  if (header.begin >= header.end || header.begin % kRangeFloats != 0 || header.end % kRangeFloats != 0)
    throw damaged(fmt::format("floats {} to {} are not a range; it must begin and end at multiples of {}",
                              header.begin, header.end, kRangeFloats));
  if (header.begin / kBlockFloats != (header.end - 1) / kBlockFloats)
    throw damaged(fmt::format("floats {} to {} are not within one block of {}", header.begin, header.end,
                              kBlockFloats));
}

/// Of a frame between the servers of a chain.
void check_chained(const FrameHeader& header) {
  constexpr auto kMost = static_cast<uint64_t>(kMostUpdates);
  if (header.sequence > kMost || header.version < 0 || header.version > kMostUpdates || header.round < 0)
    throw damaged(fmt::format("it is of update {}, version {} and round {}", header.sequence, header.version,
                              header.round));
  const double least = header.kind == FrameKind::update ? 1 : 0;
  if (!(header.number >= least && header.number <= static_cast<double>(kMostUpdates) &&
        header.number == std::floor(header.number)))
    throw damaged(fmt::format("its work has the number {}", header.number));
}

void check(const FrameHeader& header) {
  if (header.kind < FrameKind::exchange || header.kind > FrameKind::held)
    throw damaged(fmt::format("its kind is {}", static_cast<int>(header.kind)));
  if ((header.flags & ~(flags_allowed(header.kind) | kPlainPayload)) != 0)
    throw damaged(fmt::format("its flags are {:#x}", header.flags));
  if (header.kind == FrameKind::welcome) {
    if (header.members != 0) throw damaged("a welcome with members");
    return;
  }
  check_range(header);
  const bool round = (header.flags & kRound) != 0;
  if (round != (header.members > 0) || header.members > kMostRoundMembers)
    throw damaged(fmt::format("its round has {} members", header.members));
  if (!std::isfinite(header.learning_rate) || !std::isfinite(header.samples) || header.samples < 0)
    throw damaged("its learning rate or number of samples is not a finite number");
  if (header.kind >= FrameKind::hello) return check_chained(header);
  const bool pushes = header.kind == FrameKind::exchange && (header.flags & kPush) != 0;
  if (header.kind == FrameKind::exchange && header.arena > (pushes ? payload_types().size() : 0))
    throw damaged(
        fmt::format("it has the payload {}, which this release of telar does not know", header.arena));
  const double most = pushes ? static_cast<double>(kMostUpdates) : 0;
  if (header.kind == FrameKind::exchange &&
      !(header.number >= 0 && header.number <= most && header.number == std::floor(header.number)))
    throw damaged(fmt::format("its work has the number {}", header.number));
  if (header.kind != FrameKind::answer && header.kind != FrameKind::write) return;
  if (header.version < 0 || header.version > kMostUpdates)
    throw damaged(fmt::format("its floats have version {}", header.version));
  if (!std::isfinite(header.number) || header.number < 0)
    throw damaged(fmt::format("its staleness is {}", header.number));
}

}  // namespace

/// The floats of an encoded push.
static std::vector<float> decoded(const Frame& frame) {
  const size_t count = frame.header.end - frame.header.begin;
  std::vector<std::byte> bytes(frame.payload.bytes());
  if (bytes.size() >= count * sizeof(float))
    throw damaged(fmt::format("{} floats came encoded as {} bytes", count, bytes.size()));
  frame.payload.copy_to(bytes);
  std::vector<float> floats(count);
  try {
    numbered_payload(frame.header.arena).decode(bytes, floats);
  } catch (const Error& error) {
    throw damaged(error.what());
  }
  return floats;
}

FramePayload::FramePayload(std::vector<float> floats)
    : own_(std::make_shared<const std::vector<float>>(std::move(floats))) {
  parts_.push_back(std::as_bytes(std::span(*own_)));
}

size_t FramePayload::bytes() const {
  size_t sum = 0;
  for (const auto& part : parts_) sum += part.size();
  return sum;
}

void FramePayload::copy_to(std::span<std::byte> out) const {
  size_t at = 0;
  for (const auto& part : parts_) {
    const size_t count = std::min(part.size(), out.size() - at);
    if (count > 0) std::memcpy(out.data() + at, part.data(), count);
    at += count;
  }
}

const float* FramePayload::floats(std::span<float> scratch) const {
  if (parts_.size() == 1 && reinterpret_cast<uintptr_t>(parts_[0].data()) % alignof(float) == 0)
    return reinterpret_cast<const float*>(parts_[0].data());
  copy_to(std::as_writable_bytes(scratch));
  return scratch.data();
}

void check_frame(const FrameHeader& header, std::span<const uint32_t> members) {
  check(header);
  std::vector<uint32_t> sorted(members.begin(), members.end());
  std::ranges::sort(sorted);
  if (std::ranges::adjacent_find(sorted) != sorted.end())
    throw damaged("a member is listed twice in its round");
}

uint64_t frame_checksum(const FrameHeader& header, std::span<const std::span<const std::byte>> rest) {
  Checksum checksum;
  checksum.add(std::as_bytes(std::span(&header, 1)).first(offsetof(FrameHeader, checksum)));
  size_t covered = std::numeric_limits<size_t>::max();
  if ((header.flags & kPlainPayload) != 0) covered = header.members * sizeof(uint32_t);
  for (const std::span<const std::byte> part : rest) {
    const size_t count = std::min(part.size(), covered);
    checksum.add(part.first(count));
    covered -= count;
  }
  return checksum.value();
}

Frame parse_frame(std::span<const std::span<const std::byte>> parts) {
  Taker taker(parts);
  Frame frame;
  if (!taker.take(std::as_writable_bytes(std::span(&frame.header, 1)))) throw damaged("it is too short");
  const uint64_t checksum = frame_checksum(frame.header, taker.rest());
  if (checksum != frame.header.checksum)
    throw run_error("a damaged frame: the checksum of frame {} is {:016x} instead of {:016x}",
                    frame.header.sequence, checksum, frame.header.checksum);
  check(frame.header);
  frame.members.resize(frame.header.members);
  if (!taker.take(std::as_writable_bytes(std::span(frame.members))))
    throw damaged("it ends within its list of members");
  check_frame(frame.header, frame.members);

  frame.payload = FramePayload(std::vector(taker.rest().begin(), taker.rest().end()));
  if (frame.header.kind == FrameKind::welcome || frame.header.kind == FrameKind::filled) return frame;
  if (frame.header.kind == FrameKind::exchange && frame.header.arena != 0) {
    frame.payload = FramePayload(decoded(frame));
    return frame;
  }
  const size_t expected =
      carries_floats(frame.header) ? (frame.header.end - frame.header.begin) * sizeof(float) : 0;
  if (frame.payload.bytes() != expected)
    throw damaged(fmt::format("floats {} to {} came with {} bytes instead of {}", frame.header.begin,
                              frame.header.end, frame.payload.bytes(), expected));
  return frame;
}

}  // namespace telar
