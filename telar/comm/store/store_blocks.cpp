#include "telar/comm/store/store_blocks.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "telar/comm/store/store_block_state.h"
#include "telar/core/error.h"
#include "telar/core/number_set.h"

namespace telar {
namespace {

using namespace std::chrono_literals;
/// Interval at which a waiting thread checks for reasons to stop that do not wake it.
constexpr auto kTick = 50ms;
/// The same for a thread that waits until other blocks' sums are complete.
constexpr auto kFullTick = 1ms;

bool same_range(const StoreSum& sum, size_t begin, size_t end) {
  return sum.begin == begin && sum.end == end;
}
bool overlaps(const StoreSum& sum, size_t begin, size_t end) { return sum.begin < end && begin < sum.end; }

std::shared_ptr<const std::byte> copy_of(std::span<const std::byte> bytes) {
  auto copy = std::make_shared<const std::vector<std::byte>>(bytes.begin(), bytes.end());
  const std::byte* first = copy->data();
  return {std::move(copy), first};
}

}  // namespace

/// What an update is applied with.
struct StoreBlocks::Values {
  const float* gradient = nullptr;
  float learning_rate = 0;
  float samples = 0;
  int64_t round = 0;  ///< 0: none
};

/// Of an update that may be kept for the other copies, until it is. Several pushes together keep no more than
/// fits.
class StoreBlocks::Room {
 public:
  Room(StoreBlocks& blocks, size_t bytes, const Cancelled& cancelled) : blocks_(blocks), bytes_(bytes) {
    if (bytes_ == 0) return;
    std::unique_lock lock(blocks_.room_mutex_);
    while (blocks_.kept_bytes_ > 0 && blocks_.kept_bytes_ + bytes_ > kMostKept) {
      stopped_ = blocks_.stopped_ || cancelled();
      if (stopped_) return;
      blocks_.room_.wait_for(lock, kTick);
    }
    blocks_.kept_bytes_ += bytes_;
  }
  ~Room() {
    if (!stopped_) blocks_.free_room(bytes_);
  }
  Room(const Room&) = delete;
  Room& operator=(const Room&) = delete;
  bool stopped() const { return stopped_; }

 private:
  StoreBlocks& blocks_;
  const size_t bytes_;
  bool stopped_ = false;
};

struct StoreBlocks::Block {
  size_t from = 0;
  size_t to = 0;
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<StoreSegment> segments;
  std::vector<std::shared_ptr<StoreSum>> sums;
  StoreWorks works;                                                  ///< without copies
  std::map<std::pair<size_t, size_t>, std::set<int64_t>> discarded;  ///< rounds

  std::optional<ChainedBlock> chain;  ///< with copies
  std::shared_ptr<ChainSink> predecessor;
  std::shared_ptr<ChainSink> successor;  ///< that has said hello
  std::deque<SharedFrame> kept;          ///< of `chain`, in the order of updates
  std::map<ChainedBlock::Ticket, std::shared_ptr<StoreCopying>> copying;
  ChainedBlock::Ticket last_ticket = 0;
  /// A copy that arrives, of all arenas: the block is the old one until it is complete.
  struct Arriving {
    Buffer floats;
    std::unique_ptr<StoreAccount::Entry> bytes;
    std::vector<StoreSegment> segments;
  } arriving;

  const StoreWorks& applied() const { return chain ? chain->works() : works; }
  bool has(size_t begin, size_t end, int64_t work) const {
    const auto found = applied().find({begin, end});
    return work > 0 && found != applied().end() && found->second.contains(work);
  }
  void note(size_t begin, size_t end, int64_t work) {
    if (work > 0) works[{begin, end}].add(work);
  }

  /// Splits a segment so that one begins at `at`.
  void cut(size_t at) {
    for (size_t i = 0; i < segments.size(); ++i) {
      if (segments[i].begin >= at || at >= segments[i].end) continue;
      StoreSegment second = segments[i];
      segments[i].end = second.begin = at;
      segments.insert(segments.begin() + static_cast<ptrdiff_t>(i) + 1, second);
      return;
    }
  }
  template <typename Function>
  void each(size_t begin, size_t end, const Function& visit) {
    for (StoreSegment& segment : segments)
      if (segment.begin < end && begin < segment.end) visit(segment);
  }
  int64_t version(size_t begin, size_t end) {
    int64_t lowest = INT64_MAX;
    each(begin, end, [&](const StoreSegment& segment) { lowest = std::min(lowest, segment.version); });
    return lowest;
  }
  int64_t last_round(size_t begin, size_t end) {
    int64_t last = 0;
    each(begin, end, [&](const StoreSegment& segment) { last = std::max(last, segment.round); });
    return last;
  }
};

StoreBlocks::StoreBlocks(StoreLayout layout, std::unique_ptr<StoreUpdate> update, StoreMembers& members,
                         size_t open_bytes)
    : layout_(std::move(layout)),
      update_(std::move(update)),
      members_(members),
      free_sums_(open_bytes / (kBlockFloats * sizeof(float))) {
  for (size_t arena = 0; arena <= update_->slots().size(); ++arena)
    arenas_.emplace_back(layout_.floats * sizeof(float));
  memory_.parameters = arenas_[0].as<float>().data();
  for (size_t arena = 1; arena < arenas_.size(); ++arena)
    memory_.states.push_back(arenas_[arena].as<float>().data());
  for_each_block(0, layout_.floats, [&](size_t begin, size_t end) {
    blocks_.push_back(std::make_unique<Block>());
    blocks_.back()->from = begin;
    blocks_.back()->to = end;
    blocks_.back()->segments.push_back({.begin = begin, .end = end});
  });
  keeper_ = std::thread([this] { keep(); });
}

StoreBlocks::~StoreBlocks() {
  stop();
  keeper_.join();
}

void StoreBlocks::stop() {
  {
    const std::lock_guard lock(keeper_mutex_);
    stopped_ = true;
  }
  keeper_wakes_.notify_all();
  for (const auto& block : blocks_) block->changed.notify_all();
}

bool StoreBlocks::apply_locked(Block& block, size_t begin, size_t end, const float* gradient,
                               float learning_rate, float samples) {
  block.cut(begin);
  block.cut(end);
  bool finite = true;
  block.each(begin, end, [&](StoreSegment& segment) {
    const StoreScalars scalars{
        .learning_rate = learning_rate, .samples = samples, .step = static_cast<float>(segment.version + 1)};
    const float* part = gradient + (segment.begin - begin);
    // A sum without samples (all messages of a batch were damaged) has no mean to update with. It counts as
    // an update, because steps count so.
    if (samples > 0) finite &= update_->apply(memory_, segment.begin, segment.end, part, scalars);
    ++segment.version;
    if (ledger_ != nullptr) ledger_->reached(segment.version);
  });
  ++updates_;
  return finite;
}

StoreBlocks::Applied StoreBlocks::apply(const StorePush& push, std::span<float> scratch,
                                        const Cancelled& cancelled) {
  const float* gradient = push.gradient->floats(scratch);
  Applied applied;
  const Room room(*this, chained_ ? (push.end - push.begin) * sizeof(float) : 0, cancelled);
  applied.stopped = room.stopped();
  if (applied.stopped) return applied;
  Block& block = block_of(push.begin);
  const std::lock_guard lock(block.mutex);
  const int64_t version = block.version(push.begin, push.end);
  if (push.pulled_version >= 0)
    applied.staleness = static_cast<double>(std::max<int64_t>(version - push.pulled_version, 0));
  applied.copying = update(
      block, {.begin = push.begin, .end = push.end, .work = push.work}, push.generation,
      {.gradient = gradient, .learning_rate = push.learning_rate, .samples = push.samples}, applied.finite);
  return applied;
}

/// Applies an update whose piece of work is new. With copies, returns what its answer waits for.
std::shared_ptr<StoreCopying> StoreBlocks::update(Block& block, ChainUpdate what, int64_t generation,
                                                  const Values& values, bool& finite) {
  if (!block.chain) {
    if (block.has(what.begin, what.end, what.work)) return nullptr;
    finite = apply_locked(block, what.begin, what.end, values.gradient, values.learning_rate, values.samples);
    block.note(what.begin, what.end, what.work);
    return nullptr;
  }
  block.chain->push(generation, block.last_ticket + 1, what.begin, what.end, what.work);
  auto copying = std::make_shared<StoreCopying>();
  block.copying[++block.last_ticket] = copying;
  finite = perform(block, values);
  return copying;
}

std::shared_ptr<StoreSum> StoreBlocks::open_sum(Block& block, const StorePush& push,
                                                const StoreRound& round) {
  for (const auto& sum : block.sums) {
    if (sum->round.number != round.number || !overlaps(*sum, push.begin, push.end)) continue;
    if (same_range(*sum, push.begin, push.end) && sum->round.members == round.members &&
        sum->work == push.work)
      return sum;
    throw user_error(
        "member {} pushes floats {} to {} in round {}, but another member pushes {} to {}, or another piece of work, or lists other members of the round; the members of a round must start the same ranges",
        push.member, push.begin, push.end, round.number, sum->begin, sum->end);
  }
  auto sum = std::make_shared<StoreSum>();
  sum->begin = push.begin;
  sum->end = push.end;
  sum->round = round;
  sum->work = push.work;
  sum->generation = push.generation;
  sum->in.resize(round.members.size());
  sum->given_up.resize(round.members.size());
  block.sums.push_back(sum);
  ++open_sums_;
  return sum;
}

bool StoreBlocks::acquire_sum(StoreSum& sum) {
  const std::lock_guard lock(sums_mutex_);
  if (free_sums_ == 0) return false;
  --free_sums_;
  if (unused_.empty()) {
    sum.floats = Buffer(kBlockFloats * sizeof(float));
    account_.add(sum.floats.size());
  } else {
    sum.floats = std::move(unused_.back());
    unused_.pop_back();
  }
  return true;
}

void StoreBlocks::release_sum(StoreSum& sum) {
  const std::lock_guard lock(sums_mutex_);
  ++free_sums_;
  unused_.push_back(std::exchange(sum.floats, Buffer()));
}

StoreBlocks::Contributed StoreBlocks::contribute(const StorePush& push, const StoreRound& round,
                                                 std::span<float> scratch, const Cancelled& cancelled) {
  const auto place = std::ranges::find(round.members, push.member);
  if (place == round.members.end())
    throw user_error("member {} is not in round {}, to which it pushes", push.member, round.number);
  if (chained_ && push.work == 0)
    throw user_error("member {} pushes to a round without a number of work", push.member);
  const auto own = static_cast<size_t>(place - round.members.begin());

  Block& block = block_of(push.begin);
  std::unique_lock lock(block.mutex);
  Contributed result;
  while (true) {
    if (stopped_ || cancelled()) {
      result.stopped = true;
      return result;
    }
    if (block.chain && block.has(push.begin, push.end, push.work)) {
      bool finite = true;
      result.copying = update(block, {.begin = push.begin, .end = push.end, .work = push.work},
                              push.generation, {}, finite);
      return result;
    }
    if (round.number <= block.last_round(push.begin, push.end)) {
      result.late = !block.has(push.begin, push.end, push.work);
      return result;
    }
    const auto open = block.sums;
    for (const auto& sum : open)
      if (sum->round.number < round.number && overlaps(*sum, push.begin, push.end)) close(block, sum, false);
    const std::shared_ptr<StoreSum> sum = open_sum(block, push, round);
    if (sum->given_up[own]) {
      result.late = true;
      return result;
    }
    bool turn = true;
    for (size_t i = 0; i < own; ++i) turn &= sum->in[i] || sum->given_up[i];
    // The first contribution needs memory. A member that is ahead of the others waits here until they catch
    // up.
    if (turn && (sum->floats.size() > 0 || acquire_sum(*sum))) {
      result.sum = sum;
      break;
    }
    block.changed.wait_for(lock, turn ? kFullTick : kTick);
  }

  StoreSum& sum = *result.sum;
  const int64_t version = block.version(push.begin, push.end);
  if (push.pulled_version >= 0)
    result.staleness = static_cast<double>(std::max<int64_t>(version - push.pulled_version, 0));
  sum.in[own] = true;
  if (block.has(push.begin, push.end, push.work)) {
    if (!close_if_complete(block, result.sum)) block.changed.notify_all();
    return result;
  }
  const size_t count = push.end - push.begin;
  if (!std::exchange(sum.added, true)) {
    push.gradient->copy_to(std::as_writable_bytes(sum.floats.as<float>().first(count)));
    sum.learning_rate = push.learning_rate;
  } else {
    const float* values = push.gradient->floats(scratch);
    float* total = sum.floats.as<float>().data();
    for (size_t i = 0; i < count; ++i) total[i] += values[i];
  }
  sum.samples += push.samples;
  if (!close_if_complete(block, result.sum)) block.changed.notify_all();
  return result;
}

bool StoreBlocks::close_if_complete(Block& block, const std::shared_ptr<StoreSum>& sum) {
  const bool complete = std::ranges::find(sum->in, false) == sum->in.end();
  if (!complete && std::ranges::find(sum->given_up, true) == sum->given_up.end()) return false;
  close(block, sum, complete);
  return true;
}

void StoreBlocks::close(Block& block, const std::shared_ptr<StoreSum>& sum, bool complete) {
  if (complete && sum->added) {
    sum->copying = update(block, {.begin = sum->begin, .end = sum->end, .work = sum->work}, sum->generation,
                          {.gradient = sum->floats.as<float>().data(),
                           .learning_rate = sum->learning_rate,
                           .samples = sum->samples,
                           .round = sum->round.number},
                          sum->finite);
  }
  sum->discarded = !complete && !block.has(sum->begin, sum->end, sum->work);
  if (sum->discarded) block.discarded[{sum->begin, sum->end}].insert(sum->round.number);
  if (sum->floats.size() > 0) release_sum(*sum);
  block.cut(sum->begin);
  block.cut(sum->end);
  block.each(sum->begin, sum->end, [&](StoreSegment& segment) { segment.round = sum->round.number; });
  sum->closed = true;
  std::erase(block.sums, sum);
  --open_sums_;
  block.changed.notify_all();
}

StoreBlocks::Contributed StoreBlocks::find(size_t begin, size_t end, int64_t round) {
  Block& block = block_of(begin);
  const std::lock_guard lock(block.mutex);
  Contributed found;
  for (const auto& sum : block.sums)
    if (sum->round.number == round && same_range(*sum, begin, end)) found.sum = sum;
  const auto discarded = block.discarded.find({begin, end});
  found.late = discarded != block.discarded.end() && discarded->second.contains(round);
  return found;
}

bool StoreBlocks::wait(const StoreSum& sum, const Cancelled& cancelled) {
  Block& block = block_of(sum.begin);
  std::unique_lock lock(block.mutex);
  while (!sum.closed) {
    if (stopped_ || cancelled()) return false;
    block.changed.wait_for(lock, kTick);
  }
  return true;
}

bool StoreBlocks::closed(const StoreSum& sum) {
  const std::lock_guard lock(block_of(sum.begin).mutex);
  return sum.closed;
}

int64_t StoreBlocks::read(size_t arena, size_t begin, std::span<float> out) {
  Block& block = block_of(begin);
  const std::lock_guard lock(block.mutex);
  std::ranges::copy(arena_floats(arena).subspan(begin, out.size()), out.begin());
  return block.version(begin, begin + out.size());
}

std::optional<int64_t> StoreBlocks::read_acknowledged(int64_t generation, size_t begin,
                                                      std::span<float> out) {
  Block& block = block_of(begin);
  const std::lock_guard lock(block.mutex);
  if (block.chain->chain().generation != generation || !block.chain->acknowledged()) return std::nullopt;
  std::ranges::copy(arena_floats(0).subspan(begin, out.size()), out.begin());
  return block.version(begin, begin + out.size());
}

int64_t StoreBlocks::version(size_t begin, size_t end) {
  Block& block = block_of(begin);
  const std::lock_guard lock(block.mutex);
  return block.version(begin, end);
}

void StoreBlocks::write(size_t arena, size_t begin, const FramePayload& values, size_t count,
                        int64_t version) {
  Block& block = block_of(begin);
  const std::lock_guard lock(block.mutex);
  if (block.chain && block.chain->passes_on())
    throw user_error("floats {} to {} have copies already; they are written before these begin", begin,
                     begin + count);
  values.copy_to(std::as_writable_bytes(arena_floats(arena).subspan(begin, count)));
  block.each(begin, begin + count, [&](StoreSegment& segment) { segment.version = version; });
  block.works.clear();  // another training begins with this state
  if (block.chain) block.chain->begin();
  if (ledger_ != nullptr) ledger_->reached(version);
  ++updates_;
}

std::vector<StoreSegment> StoreBlocks::segments(size_t block) {
  const std::lock_guard lock(blocks_[block]->mutex);
  return blocks_[block]->segments;
}

size_t StoreBlocks::floats_of(size_t block) const {
  return std::min(kBlockFloats, layout_.floats - block * kBlockFloats);
}

StoreBlocks::Copied StoreBlocks::copy(size_t block, std::span<float> memory) {
  const size_t count = floats_of(block);
  const std::lock_guard lock(blocks_[block]->mutex);
  for (size_t arena = 0; arena < arenas_.size(); ++arena)
    std::ranges::copy(arena_floats(arena).subspan(block * kBlockFloats, count),
                      memory.begin() + static_cast<ptrdiff_t>(arena * count));
  return {.segments = blocks_[block]->segments,
          .floats = memory.first(arenas_.size() * count),
          .works = blocks_[block]->applied()};
}

bool StoreBlocks::segments_fit(size_t block, const std::vector<StoreSegment>& segments) const {
  size_t next = blocks_[block]->from;
  for (const StoreSegment& segment : segments) {
    if (segment.begin != next || segment.end <= next || segment.end % kRangeFloats != 0 ||
        segment.version < 0 || segment.version > kMostUpdates || segment.round < 0)
      return false;
    next = segment.end;
  }
  return next == blocks_[block]->to;
}

bool StoreBlocks::restore(size_t block, Copied copied) {
  const size_t count = floats_of(block);
  if (!segments_fit(block, copied.segments)) return false;
  blocks_[block]->segments = std::move(copied.segments);
  blocks_[block]->works = std::move(copied.works);
  for (size_t arena = 0; arena < arenas_.size(); ++arena)
    std::ranges::copy(copied.floats.subspan(arena * count, count),
                      arena_floats(arena).begin() + static_cast<ptrdiff_t>(block * kBlockFloats));
  return true;
}

// ---- copies on other servers ----

void StoreBlocks::chain_as(StoreServerId own) {
  chained_ = true;
  for (const auto& block : blocks_) block->chain.emplace(own).begin();
}

void StoreBlocks::configure(const StoreChain& chain) {
  // Until no block writes there any more, the neighbour may still read what it shares with this server.
  std::vector<SharedFrame> unread;
  for (const auto& block : blocks_) {
    const std::lock_guard lock(block->mutex);
    unread.insert(unread.end(), block->kept.begin(), block->kept.end());
    if (chain.generation > block->chain->chain().generation) {
      block->predecessor = block->successor = nullptr;
      block->arriving = {};
    }
    block->chain->configure(chain);
    perform(*block, {});
  }
}

void StoreBlocks::connected(int64_t generation, const std::shared_ptr<ChainSink>& predecessor) {
  for (const auto& block : blocks_) {
    const std::lock_guard lock(block->mutex);
    if (block->chain->chain().generation != generation) continue;
    block->predecessor = predecessor;
    block->chain->connected();
    perform(*block, {});
  }
}

bool StoreBlocks::whole() {
  return std::ranges::all_of(blocks_, [](const auto& block) {
    const std::lock_guard lock(block->mutex);
    return block->chain->whole();
  });
}

bool StoreBlocks::copied(size_t begin, const StoreCopying& copying) {
  const std::lock_guard lock(block_of(begin).mutex);
  return copying.over;
}

bool StoreBlocks::wait_for_copies(size_t begin, const StoreCopying& copying, const Cancelled& cancelled) {
  Block& block = block_of(begin);
  std::unique_lock lock(block.mutex);
  while (!copying.over) {
    if (stopped_ || cancelled()) return false;
    block.changed.wait_for(lock, kTick);
  }
  return copying.held;
}

void StoreBlocks::receive(const Frame& frame, int64_t generation, const std::shared_ptr<ChainSink>& neighbour,
                          std::span<float> scratch) {
  const FrameHeader& header = frame.header;
  if (header.end > layout_.floats || (header.kind == FrameKind::fill && header.arena >= arenas_.size()))
    throw user_error("floats {} to {} of arena {}, which this server does not have", header.begin, header.end,
                     header.arena);
  Block& block = block_of(header.begin);
  const std::lock_guard lock(block.mutex);
  if (block.chain->chain().generation != generation) return;
  const auto sequence = static_cast<int64_t>(header.sequence);
  ChainMessage message{.generation = generation, .body = ChainHeld{sequence}};
  Values values;
  switch (header.kind) {
    case FrameKind::held: break;
    case FrameKind::hello:
      block.successor = neighbour;
      message.body =
          ChainHello{.whole = (header.flags & kWhole) != 0, .sequence = sequence, .held = header.version};
      break;
    case FrameKind::update:
      values = {.gradient = frame.payload.floats(scratch),
                .learning_rate = header.learning_rate,
                .samples = header.samples,
                .round = header.round};
      message.body = ChainUpdate{.sequence = sequence,
                                 .begin = header.begin,
                                 .end = header.end,
                                 .work = static_cast<int64_t>(header.number)};
      break;
    case FrameKind::fill: return take_fill(block, frame);
    case FrameKind::filled: {
      if (block.chain->awaits_copy() && block.arriving.floats.size() == 0)
        throw user_error("the end of a copy of floats {} to {} without a copy", header.begin, header.end);
      StoreBlockState state = decode_block_state(frame.payload);
      if (!segments_fit(header.begin / kBlockFloats, state.segments))
        throw user_error("the segments of floats {} to {} are wrong", header.begin, header.end);
      block.arriving.segments = std::move(state.segments);
      message.body = ChainCopy{.sequence = sequence, .works = std::move(state.works)};
      break;
    }
    default:
      throw user_error("a frame of kind {}, which is not for a neighbour", static_cast<int>(header.kind));
  }
  block.chain->receive(message);
  perform(block, values);
  if (header.kind == FrameKind::filled) block.arriving = {};
}

void StoreBlocks::take_fill(Block& block, const Frame& frame) {
  const FrameHeader& header = frame.header;
  if (header.begin != block.from || header.end != block.to)
    throw user_error("a copy of floats {} to {}, which are no block", header.begin, header.end);
  if (!block.chain->awaits_copy()) return;
  const size_t count = block.to - block.from;
  if (block.arriving.floats.size() == 0) {
    block.arriving.floats = Buffer(arenas_.size() * count * sizeof(float));
    block.arriving.bytes = std::make_unique<StoreAccount::Entry>(account_, block.arriving.floats.size());
  }
  frame.payload.copy_to(
      std::as_writable_bytes(block.arriving.floats.as<float>().subspan(header.arena * count, count)));
}

/// What has arrived takes the place of what the block has.
void StoreBlocks::install(Block& block) {
  const size_t count = block.to - block.from;
  for (size_t arena = 0; arena < arenas_.size(); ++arena)
    std::ranges::copy(block.arriving.floats.as<float>().subspan(arena * count, count),
                      arena_floats(arena).begin() + static_cast<ptrdiff_t>(block.from));
  block.segments = std::move(block.arriving.segments);
  drop_sums(block);
}

/// Carries out what the chain has decided. `values` are those of the update, if there is one. Returns whether
/// they were finite.
bool StoreBlocks::perform(Block& block, const Values& values) {
  bool finite = true;
  bool answered = false;
  for (const ChainedBlock::Action& action : block.chain->take_actions()) {
    if (const auto* apply = std::get_if<ChainedBlock::Apply>(&action)) {
      const ChainUpdate& update = apply->update;
      if (block.chain->passes_on()) keep_values(block, update, values);
      finite &= apply_locked(block, update.begin, update.end, values.gradient, values.learning_rate,
                             values.samples);
      block.each(update.begin, update.end,
                 [&](StoreSegment& segment) { segment.round = std::max(segment.round, values.round); });
    } else if (const auto* sent = std::get_if<ChainedBlock::Send>(&action)) {
      if (const auto* update = std::get_if<ChainUpdate>(&sent->message.body))
        keep_values(block, *update, values);
      send(block, sent->message);
    } else if (const auto* answer = std::get_if<ChainedBlock::Answer>(&action)) {
      const auto copying = block.copying.extract(answer->ticket).mapped();
      copying->over = answered = true;
      copying->held = answer->applied;
    } else if (std::holds_alternative<ChainedBlock::Install>(action)) {
      install(block);
    }
  }
  size_t freed = 0;
  for (; block.kept.size() > block.chain->kept(); block.kept.pop_front()) freed += block.kept.front().bytes;
  free_room(freed);
  if (answered) block.changed.notify_all();
  return finite;
}

void StoreBlocks::free_room(size_t bytes) {
  if (bytes == 0) return;
  {
    const std::lock_guard lock(room_mutex_);
    kept_bytes_ -= bytes;
  }
  room_.notify_all();
}

/// The floats of a block are another server's now, and so are its rounds.
void StoreBlocks::drop_sums(Block& block) {
  for (const auto& sum : block.sums) {
    sum->closed = sum->discarded = true;
    if (sum->floats.size() > 0) release_sum(*sum);
  }
  open_sums_ -= static_cast<int>(block.sums.size());
  block.sums.clear();
  block.discarded.clear();
  block.changed.notify_all();
}

/// Unless they are kept already.
void StoreBlocks::keep_values(Block& block, const ChainUpdate& update, const Values& values) {
  const auto sequence = static_cast<uint64_t>(update.sequence);
  if (!block.kept.empty() && block.kept.back().header.sequence >= sequence) return;
  if (values.gradient == nullptr) throw run_error("update {} of a block is not kept any more", sequence);
  const auto bytes = std::as_bytes(std::span(values.gradient, update.end - update.begin));
  std::shared_ptr<const std::byte> copy = block.successor ? block.successor->keep(bytes) : nullptr;
  const SharedFrame& frame =
      block.kept.emplace_back(SharedFrame{.header = {.kind = FrameKind::update,
                                                     .sequence = sequence,
                                                     .begin = update.begin,
                                                     .end = update.end,
                                                     .round = values.round,
                                                     .learning_rate = values.learning_rate,
                                                     .samples = values.samples,
                                                     .number = static_cast<double>(update.work)},
                                          .payload = copy ? std::move(copy) : copy_of(bytes),
                                          .bytes = bytes.size()});
  const std::lock_guard lock(room_mutex_);
  kept_bytes_ += frame.bytes;
}

void StoreBlocks::send(Block& block, const ChainMessage& message) {
  FrameHeader header{.begin = block.from, .end = block.to};
  if (const auto* update = std::get_if<ChainUpdate>(&message.body)) {
    const auto place = static_cast<uint64_t>(update->sequence) - block.kept.front().header.sequence;
    if (block.successor) block.successor->send(block.kept[place]);
    return;
  }
  if (const auto* copy = std::get_if<ChainCopy>(&message.body)) return send_copy(block, *copy);
  if (const auto* hello = std::get_if<ChainHello>(&message.body)) {
    header.kind = FrameKind::hello;
    header.flags = hello->whole ? kWhole : 0;
    header.sequence = static_cast<uint64_t>(hello->sequence);
    header.version = hello->held;
  } else {
    header.kind = FrameKind::held;
    header.sequence = static_cast<uint64_t>(std::get<ChainHeld>(message.body).sequence);
  }
  if (block.predecessor) block.predecessor->send({.header = header});
}

void StoreBlocks::send_copy(Block& block, const ChainCopy& copy) {
  if (!block.successor) return;
  FrameHeader header{.kind = FrameKind::fill, .begin = block.from, .end = block.to};
  for (size_t arena = 0; arena < arenas_.size(); ++arena) {
    header.arena = static_cast<uint16_t>(arena);
    const auto floats = arena_floats(arena).subspan(block.from, block.to - block.from);
    block.successor->send(
        {.header = header, .payload = copy_of(std::as_bytes(floats)), .bytes = floats.size_bytes()});
  }
  header.kind = FrameKind::filled;
  header.arena = 0;
  header.sequence = static_cast<uint64_t>(copy.sequence);
  const std::vector<std::byte> state = encode_block_state({block.segments, copy.works});
  block.successor->send({.header = header, .payload = copy_of(state), .bytes = state.size()});
}

void StoreBlocks::keep() {
  std::unique_lock lock(keeper_mutex_);
  while (!stopped_) {
    // A member is given up when the patience is over, or at once when its stream breaks.
    keeper_wakes_.wait_for(lock, kTick);
    if (open_sums_ == 0) continue;
    for (const auto& block : blocks_) {
      const std::lock_guard block_lock(block->mutex);
      const auto sums = block->sums;
      for (const auto& sum : sums) {
        bool changed = false;
        for (size_t i = 0; i < sum->in.size(); ++i) {
          if (sum->in[i] || sum->given_up[i]) continue;
          if (!members_.given_up(sum->round.members[i], sum->round.number, sum->since)) continue;
          sum->given_up[i] = changed = true;
        }
        if (changed && !close_if_complete(*block, sum)) block->changed.notify_all();
      }
    }
  }
}

}  // namespace telar
