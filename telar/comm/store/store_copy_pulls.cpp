#include "telar/comm/store/store_copy_pulls.h"

#include <algorithm>
#include <span>
#include <utility>

#include "telar/comm/grpc_security.h"
#include "telar/comm/store/store_calls.h"
#include "telar/comm/store/store_stream.h"
#include "telar/core/error.h"

namespace telar {
namespace {

/// Requests that wait for their answers: fewer bytes than any window, so neither side waits for the other.
constexpr size_t kMostAhead = 64;
/// After the stream has broken.
constexpr std::chrono::seconds kUntilAgain{1};

}  // namespace

CopyPulls::CopyPulls(StoreClientOptions options)
    : options_(std::move(options)),
      channel_(secure_channel(options_.copy, options_.security, 4 * static_cast<int>(kLargestFrame),
                              options_.keepalive_seconds)),
      stop_(options_.stop, [this] { cancel(); }) {}

CopyPulls::~CopyPulls() {
  cancel();
  if (stream_) stream_->Finish();
}

void CopyPulls::cancel() {
  const std::lock_guard lock(mutex_);
  cancelled_ = true;
  if (context_) context_->TryCancel();
}

bool CopyPulls::open() {
  if (stream_) return true;
  if (StoreClock::now() < again_) return false;
  const bool checksums =
      options_.payload_checksums.value_or(!safe_from_damage(options_.copy, options_.security));
  auto context = std::make_unique<grpc::ClientContext>();
  introduce(*context, options_.security);
  context->AddMetadata(kJobKey, options_.job);
  context->AddMetadata(kShardKey, std::to_string(options_.shard));
  context->AddMetadata(kGenerationKey, std::to_string(options_.generation));
  context->AddMetadata(kCopyKey, "1");
  context->AddMetadata(kChecksumsKey, checksums ? "1" : "0");
  {
    const std::lock_guard lock(mutex_);
    if (cancelled_) return false;
    context_ = std::move(context);
  }
  // Connecting to a server that is stopped takes seconds, and cancel() must not wait for it.
  stream_ = open_frames(channel_, kExchangeMethod, *context_);
  return true;
}

std::vector<StoreRequest> CopyPulls::pull(std::vector<StoreRequest> requests, const Taken& taken) {
  if (!open()) return requests;
  std::vector<StoreRequest> left;
  std::string damage;
  size_t answered = 0;
  try {
    exchange(requests, answered, left, taken);
  } catch (const Error& error) {
    damage = error.what();
  }
  if (answered == requests.size()) return left;
  close(damage);
  left.insert(left.end(), std::make_move_iterator(requests.begin() + static_cast<ptrdiff_t>(answered)),
              std::make_move_iterator(requests.end()));
  return left;
}

/// Ends early when the stream has broken.
void CopyPulls::exchange(std::vector<StoreRequest>& requests, size_t& answered,
                         std::vector<StoreRequest>& refused, const Taken& taken) {
  size_t asked = 0;
  grpc::ByteBuffer message;
  for (; answered < requests.size(); ++answered) {
    for (; asked < std::min(requests.size(), answered + kMostAhead); ++asked)
      if (!ask(requests[asked])) {
        while (stream_->Read(&message)) message.Clear();  // or its end would wait for these
        return;
      }
    if (!stream_->Read(&message)) return;
    const ReceivedFrame received(message);
    const FrameHeader& answer = received.frame.header;
    StoreRequest& request = requests[answered];
    if (answer.kind != FrameKind::answer || answer.sequence != request.header.sequence ||
        answer.begin != request.header.begin || answer.end != request.header.end)
      throw user_error("an answer to another request");
    if ((answer.flags & kPull) != 0) {
      taken(answer, received.frame.payload, request.into);
    } else {
      refused.push_back(std::move(request));
    }
    message.Clear();
  }
}

bool CopyPulls::ask(StoreRequest& request) {
  request.header.sequence = ++sequence_;
  OwnedFrame frame(request.header, {}, 0);
  frame.seal();
  return stream_->Write(frame.message());
}

/// After it has broken.
void CopyPulls::close(const std::string& damage) {
  if (!damage.empty()) context_->TryCancel();  // otherwise it has ended, and cancelling could hide why
  const grpc::Status status = stream_->Finish();
  stream_.reset();
  bool cancelled = false;
  {
    const std::lock_guard lock(mutex_);
    context_.reset();
    cancelled = cancelled_;
  }
  again_ = StoreClock::now() + kUntilAgain;
  // A server ends the streams of an earlier generation of its chain, which is no loss.
  if (cancelled || (damage.empty() && status.error_code() == grpc::StatusCode::CANCELLED)) return;
  std::string why = damage.empty() ? reason_of(status) : "it sent " + damage;
  if (std::exchange(said_, why) == why || !options_.say) return;
  options_.say(fmt::format("Shard {} of the parameter servers is not pulled from its copy at {}: {}",
                           options_.shard - 1, options_.copy, why));
}

void serve_copy_pulls(FrameServerStream& stream, StoreBlocks& blocks, int64_t generation,
                      bool payload_checksums) {
  grpc::ByteBuffer message;
  while (stream.Read(&message)) {
    FrameHeader header = ReceivedFrame(message).frame.header;
    if (header.kind != FrameKind::exchange || (header.flags & ~kPlainPayload) != kPull ||
        header.end > blocks.layout().floats)
      throw user_error("something other than a pull of floats that this server has");
    header = {.kind = FrameKind::answer,
              .flags = kPull,
              .sequence = header.sequence,
              .begin = header.begin,
              .end = header.end};
    OwnedFrame frame(header, {}, (header.end - header.begin) * sizeof(float));
    const StoreAccount::Entry held(blocks.account(), frame.payload.size());
    const std::span<float> out{reinterpret_cast<float*>(frame.payload.data()),
                               frame.payload.size() / sizeof(float)};
    const std::optional<int64_t> version = blocks.read_acknowledged(generation, header.begin, out);
    if (!version) {
      header.flags = 0;
      frame = OwnedFrame(header, {}, 0);
    }
    frame.header().version = version.value_or(0);
    if (!payload_checksums) frame.header().flags |= kPlainPayload;
    frame.seal();
    if (!stream.Write(frame.message())) return;
    message.Clear();
  }
}

}  // namespace telar
