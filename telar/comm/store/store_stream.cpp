#include "telar/comm/store/store_stream.h"

#include <array>
#include <cstring>

#include "telar/core/error.h"

namespace telar {
namespace {

/// Answers up to this size are written without waking the writing thread.
constexpr size_t kSmallAnswer = size_t{64} << 10;
/// Limit of queued answers; a client that sends more requests without reading answers waits.
constexpr size_t kMostAnswers = 1024;

class AnswerWriter {
 public:
  AnswerWriter(FrameServerStream& stream, StoreSession& session, bool payload_checksums)
      : stream_(stream), session_(session), payload_checksums_(payload_checksums) {
    thread_ = std::thread([this] { work(); });
  }
  ~AnswerWriter() {
    {
      const std::lock_guard lock(mutex_);
      ended_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  AnswerWriter(const AnswerWriter&) = delete;
  AnswerWriter& operator=(const AnswerWriter&) = delete;

  /// Returns false if the stream is broken.
  bool add(StoreSession::Answer answer) {
    {
      std::unique_lock lock(mutex_);
      if (broken_) return false;
      const size_t bytes = (answer.header.end - answer.header.begin) * sizeof(float);
      const bool small = (answer.header.flags & kPull) == 0 || bytes <= kSmallAnswer;
      if (!answers_.empty() || writing_ || !small || !session_.ready(answer)) {
        changed_.wait(lock, [&] { return answers_.size() < kMostAnswers || broken_; });
        answers_.push_back(std::move(answer));
        lock.unlock();
        changed_.notify_all();
        return true;
      }
      writing_ = true;
    }
    const bool written = write(answer);
    const std::lock_guard lock(mutex_);
    writing_ = false;
    broken_ |= !written;
    return written;
  }

 private:
  void work() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] { return ended_ || (!answers_.empty() && !writing_); });
      if (ended_ || broken_) return;
      StoreSession::Answer answer = std::move(answers_.front());
      answers_.pop_front();
      writing_ = true;
      lock.unlock();
      changed_.notify_all();
      const bool written = write(answer);
      lock.lock();
      writing_ = false;
      if (written) continue;
      broken_ = true;
      changed_.notify_all();
      return;
    }
  }

  bool write(StoreSession::Answer& answer) {
    const bool floats = (answer.header.flags & kPull) != 0;
    OwnedFrame frame(answer.header, {},
                     floats ? (answer.header.end - answer.header.begin) * sizeof(float) : 0);
    const StoreAccount::Entry held(session_.account(), sizeof(FrameHeader) + frame.payload.size());
    const std::span<float> out{reinterpret_cast<float*>(frame.payload.data()),
                               frame.payload.size() / sizeof(float)};
    if (!session_.complete(answer, out)) return false;
    frame.header() = answer.header;
    if (!payload_checksums_) frame.header().flags |= kPlainPayload;
    frame.seal();
    return stream_.Write(frame.message());
  }

  FrameServerStream& stream_;
  StoreSession& session_;
  bool payload_checksums_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<StoreSession::Answer> answers_;
  bool writing_ = false;
  bool ended_ = false;
  bool broken_ = false;
  std::thread thread_;
};

}  // namespace

ReceivedFrame::ReceivedFrame(const grpc::ByteBuffer& message) : bytes(message.Length()) {
  if (!message.Dump(&slices_).ok()) throw user_error("a message that cannot be read");
  for (const grpc::Slice& slice : slices_)
    parts_.push_back(std::as_bytes(std::span(slice.begin(), slice.size())));
  frame = parse_frame(parts_);
}

OwnedFrame::OwnedFrame(const FrameHeader& header, std::span<const uint32_t> members, size_t payload_bytes)
    : slice(sizeof(FrameHeader) + members.size_bytes() + payload_bytes) {
  // The slice is new and not shared yet, so writing to it is safe although gRPC declares its bytes const.
  auto* bytes = const_cast<std::byte*>(reinterpret_cast<const std::byte*>(slice.begin()));
  std::memcpy(bytes, &header, sizeof(FrameHeader));
  if (!members.empty()) std::memcpy(bytes + sizeof(FrameHeader), members.data(), members.size_bytes());
  payload = {bytes + sizeof(FrameHeader) + members.size_bytes(), payload_bytes};
}

FrameHeader& OwnedFrame::header() {
  return *const_cast<FrameHeader*>(reinterpret_cast<const FrameHeader*>(slice.begin()));
}

void OwnedFrame::seal(std::span<const std::byte> rest) {
  const auto own = std::as_bytes(std::span(slice.begin(), slice.size())).subspan(sizeof(FrameHeader));
  header().checksum = frame_checksum(header(), std::array{own, rest});
}

void serve_stream(FrameServerStream& stream, grpc::ServerContext& context, StoreSession& session,
                  bool payload_checksums) {
  AnswerWriter writer(stream, session, payload_checksums);
  try {
    grpc::ByteBuffer message;
    while (stream.Read(&message)) {
      const ReceivedFrame received(message);
      const StoreAccount::Entry held(session.account(), received.bytes);
      if (!writer.add(session.handle(received.frame))) return;
      message.Clear();
    }
  } catch (...) {
    context.TryCancel();
    throw;
  }
}

}  // namespace telar
