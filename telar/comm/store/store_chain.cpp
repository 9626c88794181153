#include "telar/comm/store/store_chain.h"

#include <algorithm>

#include "telar/core/error.h"

namespace telar {

void ChainedBlock::begin() {
  forget();
  whole_ = true;
}

void ChainedBlock::configure(const StoreChain& chain) {
  if (chain.generation < chain_.generation) return;
  if (chain.generation > chain_.generation) {
    const int64_t before = std::exchange(chain_, chain).generation;
    sending_ = false;
    const bool in = place() < chain.servers.size();
    // Who joins in a generation of which this server has not heard starts from nothing.
    if (!in || (is_tail() && chain.joins_since > before)) forget();
    reordered_ = whole_ && place() > 0 && (reordered_ || chain.ordered_since > before);
    if (!serves()) refuse_waiting();
    if (!awaits_copy() && is_last()) hold(sequence_);
    for (const ChainMessage& message : std::exchange(early_, {})) receive(message);
  }
  actions_.emplace_back(Report{.generation = chain_.generation, .whole = whole_});
  connected();
}

void ChainedBlock::connected() {
  const size_t own = place();
  if (own == 0 || own == chain_.servers.size()) return;
  send(chain_.servers[own - 1], ChainHello{.whole = !awaits_copy(), .sequence = sequence_, .held = held_});
}

void ChainedBlock::receive(const ChainMessage& message) {
  if (message.generation > chain_.generation) early_.push_back(message);
  if (message.generation != chain_.generation) return;
  const size_t own = place();
  const size_t servers = chain_.servers.size();
  const bool of_successor =
      std::holds_alternative<ChainHello>(message.body) || std::holds_alternative<ChainHeld>(message.body);
  if (own == servers || (of_successor ? own + 1 == servers : own == 0))
    throw user_error("a message from beyond the end of the chain of generation {}", chain_.generation);
  std::visit([this](const auto& body) { take(body); }, message.body);
}

void ChainedBlock::push(int64_t generation, Ticket ticket, size_t begin, size_t end, int64_t work) {
  if (work <= 0)
    throw user_error("a push without a number, which a server with copies cannot tell from others");
  if (generation != chain_.generation || !serves()) {
    actions_.emplace_back(Answer{.ticket = ticket, .applied = false});
    return;
  }
  // A push that comes again may still be on its way to the tail. It waits as the first one does.
  waiting_.push_back({.ticket = ticket, .sequence = sequence_});
  if (const auto found = works_.find({begin, end}); found == works_.end() || !found->second.contains(work)) {
    ++waiting_.back().sequence;
    apply({.sequence = sequence_ + 1, .begin = begin, .end = end, .work = work});
  }
  hold(is_last() ? sequence_ : held_);
}

/// Whether all who have a copy of the block have this server's updates. So it is before one that joins asks
/// for its copy, which will have them. In a later generation, that one may have its copy already.
bool ChainedBlock::is_last() const {
  return is_tail() ||
         (place() + 2 == chain_.servers.size() && chain_.joins_since == chain_.generation && !sending_);
}

size_t ChainedBlock::place() const {
  return static_cast<size_t>(std::ranges::find(chain_.servers, own_) - chain_.servers.begin());
}

void ChainedBlock::send(StoreServerId to, decltype(ChainMessage::body) body) {
  actions_.emplace_back(
      Send{.to = to, .message = {.generation = chain_.generation, .body = std::move(body)}});
}

void ChainedBlock::forget() {
  whole_ = false;
  sequence_ = held_ = 0;
  works_.clear();
  pending_.clear();
}

void ChainedBlock::refuse_waiting() {
  for (const Waiting& push : std::exchange(waiting_, {}))
    actions_.emplace_back(Answer{.ticket = push.ticket, .applied = false});
}

void ChainedBlock::apply(const ChainUpdate& update) {
  sequence_ = update.sequence;
  works_[{update.begin, update.end}].add(update.work);
  if (!is_tail()) {
    pending_.push_back(update);
    if (sending_) send(chain_.servers[place() + 1], update);  // first, so that both compute at the same time
  }
  actions_.emplace_back(Apply{update});
}

/// This server and all behind it have the updates up to `sequence`.
void ChainedBlock::hold(int64_t sequence) {
  const bool more = sequence > held_;
  held_ = std::max(held_, sequence);
  while (!pending_.empty() && pending_.front().sequence <= held_) pending_.pop_front();
  while (!waiting_.empty() && waiting_.front().sequence <= held_) {
    actions_.emplace_back(Answer{.ticket = waiting_.front().ticket, .applied = true});
    waiting_.pop_front();
  }
  if (more && place() > 0) send(chain_.servers[place() - 1], ChainHeld{held_});
}

void ChainedBlock::take(const ChainHello& hello) {
  sending_ = true;
  if (awaits_copy()) return;  // which then goes on to the successor
  const StoreServerId successor = chain_.servers[place() + 1];
  if (!hello.whole) {
    send(successor, ChainCopy{.sequence = sequence_, .works = works_});
    return;
  }
  hold(hello.held);
  for (const ChainUpdate& update : pending_)
    if (update.sequence > hello.sequence) send(successor, update);
}

void ChainedBlock::take(const ChainCopy& copy) {
  if (!awaits_copy()) return;  // this server has said hello twice
  whole_ = true;
  reordered_ = false;
  sequence_ = copy.sequence;
  held_ = 0;
  works_ = copy.works;
  pending_.clear();
  actions_.emplace_back(Install{});
  actions_.emplace_back(Report{.generation = chain_.generation, .whole = true});
  if (is_last()) return hold(sequence_);
  if (sending_) send(chain_.servers[place() + 1], copy);
}

void ChainedBlock::take(const ChainUpdate& update) {
  if (update.sequence <= sequence_) return;  // sent again, because this server had not said that it has it
  if (awaits_copy() || update.sequence != sequence_ + 1)
    throw user_error("update {} of a block came after update {}", update.sequence, sequence_);
  apply(update);
  if (is_last()) hold(sequence_);
}

}  // namespace telar
