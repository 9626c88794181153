#include "telar/comm/store/store_session.h"

#include <deque>

#include "telar/core/error.h"

namespace telar {

StoreSession::StoreSession(StoreBlocks& blocks, StoreMembers& members, StorePeer& peer, uint32_t member,
                           StoreBlocks::Cancelled cancelled, int64_t generation)
    : blocks_(blocks),
      members_(members),
      peer_(peer),
      member_(member),
      cancelled_(std::move(cancelled)),
      generation_(generation),
      scratch_(kBlockFloats * sizeof(float)),
      scratch_entry_(blocks.account(), scratch_.size()) {}

StoreSession::Answer StoreSession::handle(const Frame& request) {
  const FrameHeader& header = request.header;
  if (header.end > blocks_.layout().floats)
    throw user_error("floats {} to {} were requested, but the arenas have {}", header.begin, header.end,
                     blocks_.layout().floats);
  if (header.kind != FrameKind::exchange && header.arena > blocks_.slots().size())
    throw user_error("arena {} was requested, but there are {}", header.arena, blocks_.slots().size() + 1);

  Answer answer;
  answer.header.kind = FrameKind::answer;
  answer.header.sequence = header.sequence;
  answer.header.begin = header.begin;
  answer.header.end = header.end;
  answer.arena = header.arena;
  switch (header.kind) {
    case FrameKind::read: answer.header.flags = kPull; break;
    case FrameKind::write:
      blocks_.write(header.arena, header.begin, request.payload, header.end - header.begin, header.version);
      break;
    case FrameKind::exchange:
      answer.header.flags = header.flags & kPull;
      answer.arena = 0;
      if ((header.flags & kPush) != 0) push(request, answer);
      break;
    default: throw user_error("a frame of kind {} is not for a server", static_cast<int>(header.kind));
  }
  return answer;
}

/// Whether a push is a repeated one that was taken before: the connection broke before it was answered. With
/// copies, one that was applied is pushed again, which changes nothing and waits for the copies.
bool StoreSession::repeated(const FrameHeader& header, Answer& answer) {
  if (header.sequence > peer_.handled) return false;
  if ((header.flags & kRound) == 0) return !blocks_.chained();
  const StoreBlocks::Contributed before = blocks_.find(header.begin, header.end, header.round);
  answer.sum = before.sum;
  if (before.late) answer.header.flags |= kLate;
  return before.sum || before.late || !blocks_.chained();
}

void StoreSession::push(const Frame& request, Answer& answer) {
  const FrameHeader& header = request.header;
  if (repeated(header, answer)) return;
  const bool in_round = (header.flags & kRound) != 0;
  const StorePush push{.member = member_,
                       .begin = header.begin,
                       .end = header.end,
                       .learning_rate = header.learning_rate,
                       .samples = header.samples,
                       .pulled_version = header.version,
                       .work = static_cast<int64_t>(header.number),
                       .generation = generation_,
                       .gradient = &request.payload};
  members_.busy(member_);
  try {
    if (in_round) {
      const StoreRound round{.number = header.round, .members = request.members};
      StoreBlocks::Contributed contributed =
          blocks_.contribute(push, round, scratch_.as<float>(), cancelled_);
      answer.sum = std::move(contributed.sum);
      answer.copying = std::move(contributed.copying);
      answer.stopped = contributed.stopped;
      answer.header.number = contributed.staleness;
      if (contributed.late) answer.header.flags |= kLate;
    } else {
      const StoreBlocks::Applied applied = blocks_.apply(push, scratch_.as<float>(), cancelled_);
      answer.copying = applied.copying;
      answer.stopped = applied.stopped;
      answer.header.number = applied.staleness;
      if (!applied.finite) answer.header.flags |= kNotFinite;
    }
  } catch (...) {
    members_.idle(member_);
    throw;
  }
  members_.idle(member_);
  if (!answer.stopped) peer_.handled = header.sequence;
}

bool StoreSession::ready(const Answer& answer) {
  if (answer.stopped) return true;
  // A sum that is closed may have copies, whose wait is its own.
  if (answer.sum) return !blocks_.chained() && blocks_.closed(*answer.sum);
  return !answer.copying || blocks_.copied(answer.header.begin, *answer.copying);
}

bool StoreSession::complete(Answer& answer, std::span<float> out) {
  if (answer.stopped) return false;
  if (answer.sum) {
    if (!blocks_.wait(*answer.sum, cancelled_)) return false;
    if (!answer.sum->finite) answer.header.flags |= kNotFinite;
    if (answer.sum->discarded) answer.header.flags |= kLate;
    answer.copying = answer.sum->copying;
  }
  if (answer.copying && !blocks_.wait_for_copies(answer.header.begin, *answer.copying, cancelled_))
    return false;
  answer.header.version = (answer.header.flags & kPull) != 0
                              ? blocks_.read(answer.arena, answer.header.begin, out)
                              : blocks_.version(answer.header.begin, answer.header.end);
  return true;
}

void serve_memory(StoreMemory& memory, StoreSession& session, const StoreBlocks::Cancelled& cancelled) {
  constexpr auto kTick = std::chrono::milliseconds(50);
  constexpr auto kBeginTick = std::chrono::milliseconds(1);
  while (!memory.begun()) {
    if (cancelled()) return;
    std::this_thread::sleep_for(kBeginTick);
  }
  std::deque<StoreSession::Answer> answers;
  while (true) {
    std::optional<StoreMemory::Request> request = memory.take_request();
    if (!request && answers.empty()) {
      if (cancelled()) return;
      memory.wait_for_request(kTick);
      continue;
    }
    if (request) {
      Frame frame{.header = request->header, .members = std::move(request->members)};
      check_frame(frame.header, frame.members);
      if (frame.header.kind != FrameKind::exchange || frame.header.end > memory.outgoing().size())
        throw user_error("a request over shared memory that is not an exchange of a range of the arenas");
      const size_t count = frame.header.end - frame.header.begin;
      if ((frame.header.flags & kPush) != 0)
        frame.payload = FramePayload({std::as_bytes(memory.outgoing().subspan(frame.header.begin, count))});
      answers.push_back(session.handle(frame));
    }
    // An answer that waits, such as for other copies, lets further requests be handled.
    if (request && !session.ready(answers.front())) continue;
    StoreSession::Answer& answer = answers.front();
    const size_t count = answer.header.end - answer.header.begin;
    if (!session.complete(answer, memory.incoming().subspan(answer.header.begin, count))) return;
    memory.put_answer(answer.header);
    answers.pop_front();
  }
}

}  // namespace telar
