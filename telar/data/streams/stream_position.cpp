#include "telar/data/streams/stream_position.h"

#include <algorithm>
#include <limits>
#include <span>
#include <string_view>

#include "telar/core/error.h"
#include "telar/io/checksum.h"

namespace telar {

namespace {

constexpr uint64_t kPositionVersion = 3;
constexpr uint64_t kWithoutChecksums = 2;  // the version before
constexpr uint64_t kMostOffset = std::numeric_limits<int64_t>::max();
constexpr uint64_t kMostPartitions = 1 << 20;

/// Big-endian, so that the bytes are ordered as the numbers are.
void put_number(std::string& bytes, uint64_t number, size_t count) {
  for (size_t i = count; i-- > 0;) bytes += static_cast<char>(number >> (8 * i));
}

class PositionBytes {
 public:
  explicit PositionBytes(std::string_view bytes) : rest_(bytes) {}

  uint64_t number(size_t count, uint64_t most) {
    if (rest_.size() < count) throw wrong();
    uint64_t number = 0;
    for (const char byte : rest_.substr(0, count)) number = number << 8U | static_cast<unsigned char>(byte);
    rest_.remove_prefix(count);
    if (number > most) throw wrong();
    return number;
  }

  std::string_view rest() const { return rest_; }

  static Error wrong() { return user_error("the position is not one of a topic"); }

 private:
  std::string_view rest_;
};

std::optional<MessageMark> next_mark(PositionBytes& bytes, bool with_checksum) {
  const bool here = bytes.number(1, 1) != 0;
  MessageMark mark;
  mark.time = static_cast<int64_t>(bytes.number(8, kMostOffset)) - 1;
  mark.bytes = static_cast<int64_t>(bytes.number(8, kMostOffset));
  if (with_checksum) mark.checksum = bytes.number(8, UINT64_MAX);
  if (here) return mark;
  if (mark != MessageMark()) throw PositionBytes::wrong();
  return std::nullopt;
}

}  // namespace

MessageMark mark_of(const Message& message) {
  Checksum checksum;
  checksum.add(std::as_bytes(std::span(message.value)));
  if (message.key) checksum.add(std::as_bytes(std::span(*message.key)));
  const uint64_t kind = (message.key ? 1U : 0U) + (message.null ? 2U : 0U);
  // Producers choose the times; -1 stands for none.
  return {std::clamp<int64_t>(message.time, -1, std::numeric_limits<int64_t>::max() - 1),
          std::ssize(message.value), checksum.value() ^ kind};
}

bool agree(const MessageMark& a, const MessageMark& b) {
  const bool known = a.checksum != 0 && b.checksum != 0;
  return a.time == b.time && a.bytes == b.bytes && (!known || a.checksum == b.checksum);
}

Position to_position(const StreamPosition& place, const std::string& topic) {
  Position position;
  std::string& bytes = position.bytes;
  put_number(bytes, place.pass, 4);
  put_number(bytes, static_cast<uint64_t>(place.messages), 8);
  put_number(bytes, kPositionVersion, 1);
  put_number(bytes, static_cast<uint64_t>(place.left_out), 8);
  put_number(bytes, static_cast<uint64_t>(place.turn), 4);
  put_number(bytes, place.next.size(), 4);
  for (const int64_t offset : place.next) put_number(bytes, static_cast<uint64_t>(offset), 8);
  for (size_t p = 0; p < place.next.size(); ++p) {
    const bool here = p < place.last.size() && place.last[p];
    const MessageMark mark = here ? *place.last[p] : MessageMark();
    put_number(bytes, here ? 1 : 0, 1);
    put_number(bytes, static_cast<uint64_t>(mark.time + 1), 8);
    put_number(bytes, static_cast<uint64_t>(mark.bytes), 8);
    put_number(bytes, mark.checksum, 8);
  }
  bytes += topic;
  return position;
}

StreamPosition stream_position(const Position& position, const std::string& topic,
                               const std::vector<int64_t>& starts) {
  PositionBytes bytes(position.bytes);
  StreamPosition place;
  place.pass = static_cast<uint32_t>(bytes.number(4, UINT32_MAX));
  place.messages = static_cast<int64_t>(bytes.number(8, kMostOffset));
  const uint64_t version = bytes.number(1, UINT8_MAX);
  if (version != kPositionVersion && version != kWithoutChecksums)
    throw user_error("the position is one of another version of telar, or of another source");
  place.left_out = static_cast<int64_t>(bytes.number(8, static_cast<uint64_t>(place.messages)));
  place.turn = static_cast<int>(bytes.number(4, kMostPartitions));
  const uint64_t count = bytes.number(4, kMostPartitions);
  for (uint64_t p = 0; p < count; ++p)
    place.next.push_back(static_cast<int64_t>(bytes.number(8, kMostOffset)));
  for (uint64_t p = 0; p < count; ++p) place.last.push_back(next_mark(bytes, version == kPositionVersion));
  if (bytes.rest() != topic)
    throw user_error("the position is one of the topic '{}', not of '{}'", bytes.rest(), topic);
  if (count > starts.size())
    throw user_error("the position is one of a topic with {} partitions; '{}' has {}", count, topic,
                     starts.size());
  if (static_cast<uint64_t>(place.turn) >= std::max<uint64_t>(count, 1)) throw PositionBytes::wrong();
  place.next.insert(place.next.end(), starts.begin() + std::ssize(place.next), starts.end());
  place.last.resize(starts.size());
  return place;
}

}  // namespace telar
