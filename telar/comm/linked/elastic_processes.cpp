#include "telar/comm/linked/elastic_processes.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "telar/core/error.h"

namespace telar {

namespace {

constexpr int kTagOfWords = 2;  // of the lane of the watch, in no generation
constexpr size_t kWordHead = 3;
/// For another process to lead when the leader is lost: not all notice at the same time that it is silent.
constexpr std::chrono::seconds kUntilSucceeded{35};

}  // namespace

ElasticProcesses::ElasticProcesses(std::unique_ptr<ElasticLinks> links, int least)
    : links_(std::move(links)), least_(least), leader_(links_->leader()) {
  if (links_->has_taken_place()) number_ = 0;
  const int size = links_->size();
  inbox_.resize(static_cast<size_t>(size));
  words_.resize(static_cast<size_t>(size));
  std::vector<int> all(static_cast<size_t>(size));
  std::iota(all.begin(), all.end(), 0);
  left_ = {all.begin(), all.end()};
  for (const int other : all)
    if (other != links_->rank()) await_words(other);
  make_generation(number_, waits() ? std::vector<int>{links_->rank()} : std::move(all));
}

void ElasticProcesses::await_words(int rank) {
  const auto from = static_cast<size_t>(rank);
  inbox_[from].resize(kWordHead + words_.size());
  words_[from] = started(links_->from(rank, Lane::watch, kTagOfWords, inbox_[from]));
}

std::vector<int> ElasticProcesses::meet_newcomers() {
  std::vector<int> newcomers = links_->newcomers();
  for (const int rank : newcomers) {
    await_words(rank);
    silent_.erase(rank);
    come_.insert(rank);
  }
  return newcomers;
}

bool ElasticProcesses::someone_waits() {
  meet_newcomers();
  std::erase_if(come_, [this](int rank) { return !why_unreachable(rank).empty(); });
  return std::ranges::any_of(come_, [this](int rank) { return has_word(rank); });
}

ElasticProcesses::~ElasticProcesses() {
  if (over_) return;
  try {
    now().sleep_until_all_come();
  } catch (const Error&) {  // nobody needs any more who is lost now
  }
}

/// Processes leave a generation one by one. The leader is its rank 0.
void ElasticProcesses::make_generation(uint16_t number, std::vector<int> ranks) {
  links_->set_members(ranks);  // from here on their places are nobody else's
  meet_newcomers();
  for (const int rank : ranks) come_.erase(rank);
  wanted_ = {ranks.begin(), ranks.end()};
  if (const auto first = std::ranges::find(ranks, leader_); first != ranks.end())
    std::rotate(ranks.begin(), first, first + 1);
  // A word is a reason to stop: to the leader, from a member; to the others, from the leader.
  std::vector<std::shared_ptr<Transfer>> awaited;  // also while an earlier generation still looks at them
  for (const int rank : ranks)
    if (rank != links_->rank() && (leads() || rank == leader_))
      awaited.push_back(words_[static_cast<size_t>(rank)]);
  auto links = links_->generation(number, ranks, [awaited = std::move(awaited)] {
    for (const std::shared_ptr<Transfer>& word : awaited)
      if (word->done()) throw run_error("a process of the group was lost, as another one says");
  });
  auto next = std::make_unique<LinkedProcesses>(std::move(links), Ending::alone);
  silent_.clear();
  try {
    next->meet_neighbours();
  } catch (const Error&) {
    for (size_t i = 0; i < ranks.size(); ++i)
      if (next->silent(static_cast<int>(i))) silent_.insert(ranks[i]);
    throw;
  }
  next->share_memory(share_memory_);
  generations_.push_back(std::move(next));
  ranks_ = std::move(ranks);
}

void ElasticProcesses::share_memory(bool share) {
  share_memory_ = share;
  now().share_memory(share);
}

void ElasticProcesses::drop_earlier() {
  generations_.erase(generations_.begin(), generations_.end() - 1);
  links_->drop_before(number_);
}

ElasticProcesses::Changes ElasticProcesses::replace() {
  over_ = true;
  leads() ? lead() : follow();
  over_ = false;
  return std::exchange(changes_, {});
}

// ---- the leader ----

void ElasticProcesses::lead() {
  for (const int rank : std::set<int>(come_)) {
    if (!has_word(rank)) continue;  // it is not ready
    come_.erase(rank);
    left_.insert(rank);
    add_name(changes_.come, rank);
  }
  while (true) {
    if (number_ >= std::numeric_limits<uint16_t>::max() - 1)
      throw run_error("{} groups of processes have been formed, and no more are possible", number_);
    ++number_;
    apart_.clear();
    for (const int rank : meet_newcomers())  // who had the place before is lost
      if (left_.erase(rank) > 0) add_name(changes_.lost, rank);
    links_->set_members({left_.begin(), left_.end()});
    for (const int rank : left_)
      if (rank != leader_) tell(rank, Word::Kind::stop);
    wait_until_stopped();
    exclude_unreachable();
    require_enough();
    std::vector<bool> members(words_.size());
    for (const int rank : left_) members[static_cast<size_t>(rank)] = true;
    for (const int rank : left_)
      if (rank != leader_) tell(rank, Word::Kind::form, members);
    try {
      return make_generation(number_, {left_.begin(), left_.end()});
    } catch (const Error&) {
      // One more is lost, or a member says that it could not connect.
      const bool lost = std::ranges::any_of(left_, [this](int rank) {
        return rank != leader_ && (has_word(rank) || !why_unreachable(rank).empty());
      });
      if (!lost) throw;
    }
  }
}

void ElasticProcesses::wait_until_stopped() {
  std::set<int> awaited = left_;
  awaited.erase(leader_);
  while (!awaited.empty()) {
    for (auto next = awaited.begin(); next != awaited.end();) {
      const int rank = *next;
      bool over = false;
      while (!over && has_word(rank)) over = take(rank, next_word(rank));
      if (!over && !why_unreachable(rank).empty()) {
        give_up(rank);
        over = true;
      }
      next = over ? awaited.erase(next) : std::next(next);
    }
    if (!awaited.empty()) links_->rest();
  }
}

bool ElasticProcesses::take(int rank, const Word& word) {
  for (size_t other = 0; other < word.flags.size(); ++other)
    if (word.flags[other]) apart_.insert(std::minmax(rank, static_cast<int>(other)));
  return word.kind == Word::Kind::stopped && word.number == number_;
}

/// Of two that cannot reach each other, the one with more lost connections; of equal ones, the last.
void ElasticProcesses::exclude_unreachable() {
  while (true) {
    int worst = leader_;
    int64_t most = 1;
    for (const int rank : left_) {
      const int64_t links = std::ranges::count_if(apart_, [&](const auto& pair) {
        return (pair.first == rank || pair.second == rank) && left_.contains(pair.first) &&
               left_.contains(pair.second);
      });
      if (rank == leader_ || links < most) continue;
      most = links;
      worst = rank;
    }
    if (worst == leader_) return;
    give_up(worst);
  }
}

void ElasticProcesses::give_up(int rank) {
  tell(rank, Word::Kind::end);
  left_.erase(rank);
  add_name(changes_.lost, rank);
}

void ElasticProcesses::add_name(std::string& names, int rank) const {
  names += (names.empty() ? "" : ", ") + links_->name(rank);
}

void ElasticProcesses::require_enough() {
  if (std::ssize(left_) >= least_) return;
  for (const int rank : left_)
    if (rank != leader_) tell(rank, Word::Kind::end);
  throw run_error(
      "lost: {}; {} of at least {} processes are left; the last checkpoint is whole; continue from it with --resume, with any number of processes",
      changes_.lost, left_.size(), least_);
}

// ---- the others ----

void ElasticProcesses::follow() {
  without_since_.reset();
  tell(leader_, Word::Kind::lost, unreachable());
  while (true) {
    if (const std::optional<Word> word = heard()) {
      if (obey(*word)) return;
      continue;
    }
    const std::string why = why_unreachable(leader_);
    if (links_->has_left(leader_)) {
      if (!waits() || !links_->why_lost(leader_).empty()) throw run_error("{}", why);
      changes_.over = true;
      return;
    }
    if (!why.empty() && succeed(why)) return lead();
    links_->rest();
  }
}

bool ElasticProcesses::obey(const Word& word) {
  if (word.kind == Word::Kind::end)
    throw run_error(
        "rank 0 goes on without {}, or not at all: it did not answer in time, the others could not reach it, or too few are left",
        links_->name(links_->rank()));
  if (word.kind == Word::Kind::stop) {
    number_ = word.number;
    tell(leader_, Word::Kind::stopped, unreachable());
  }
  if (word.kind != Word::Kind::form || word.number != number_ ||
      !word.flags[static_cast<size_t>(links_->rank())])
    return false;
  std::vector<int> ranks;
  for (size_t rank = 0; rank < word.flags.size(); ++rank)
    if (word.flags[rank]) ranks.push_back(static_cast<int>(rank));
  try {
    make_generation(number_, std::move(ranks));
    return true;
  } catch (const Error&) {
    if (why_unreachable(leader_).empty() && unreachable() == std::vector<bool>(words_.size()) &&
        !has_word(leader_))
      throw;
    tell(leader_, Word::Kind::lost, unreachable());
    return false;
  }
}

/// Only one process can hold the run, so who says *stop* with a later number leads.
std::optional<ElasticProcesses::Word> ElasticProcesses::heard() {
  if (has_word(leader_)) return next_word(leader_);
  for (int rank = 0; rank < links_->size(); ++rank) {
    if (rank == links_->rank() || !(waits() || wanted_.contains(rank)) || !has_word(rank)) continue;
    const Word word = next_word(rank);
    if (word.kind != Word::Kind::stop || word.number <= number_) continue;
    leader_ = rank;
    without_since_.reset();
    return word;
  }
  return std::nullopt;
}

bool ElasticProcesses::is_heir() const {
  if (waits()) return false;
  const auto first = std::ranges::find_if(
      wanted_, [this](int rank) { return rank != leader_ && why_unreachable(rank).empty(); });
  return first != wanted_.end() && *first == links_->rank();
}

bool ElasticProcesses::succeed(const std::string& why_lost) {
  const auto now = std::chrono::steady_clock::now();
  if (!without_since_) {
    without_since_ = now;
    // Who leads next must know that this process waits for its part.
    for (int rank = 0; waits() && rank < links_->size(); ++rank)
      if (rank != links_->rank()) tell(rank, Word::Kind::lost);
  }
  if (!is_heir()) {
    if (now - *without_since_ > kUntilSucceeded) throw run_error("{}", why_lost);
    return false;
  }
  if (!take_over_) throw run_error("{}", why_lost);
  take_over_([this] { return is_silent(leader_); });
  left_ = wanted_;
  give_up(std::exchange(leader_, links_->rank()));
  ++number_;  // the one before may have begun an attempt of which this process has not heard
  return true;
}

// ---- words ----

bool ElasticProcesses::is_silent(int rank) const {
  if (silent_.contains(rank)) return true;
  const auto at = std::ranges::find(ranks_, rank);
  return at != ranks_.end() && now().silent(static_cast<int>(at - ranks_.begin()));
}

std::string ElasticProcesses::why_unreachable(int rank) const {
  if (std::string why = links_->why_lost(rank); !why.empty()) return why;
  if (links_->has_left(rank)) return fmt::format("the process of {} has ended", links_->name(rank));
  return is_silent(rank) ? fmt::format("the process of {} does not answer", links_->name(rank)) : "";
}

std::vector<bool> ElasticProcesses::unreachable() const {
  std::vector<bool> flags(words_.size());
  for (const int rank : wanted_) flags[static_cast<size_t>(rank)] = !why_unreachable(rank).empty();
  return flags;
}

ElasticProcesses::Word ElasticProcesses::next_word(int rank) {
  const auto from = static_cast<size_t>(rank);
  const std::vector<std::byte>& bytes = inbox_[from];
  Word word{.kind = static_cast<Word::Kind>(bytes[0]),
            .number = static_cast<uint16_t>(static_cast<unsigned>(bytes[1]) |
                                            (static_cast<unsigned>(bytes[2]) << 8U)),
            .flags = {}};
  for (size_t other = kWordHead; other < bytes.size(); ++other)
    word.flags.push_back(bytes[other] != std::byte{0});
  words_[from]->start();
  return word;
}

void ElasticProcesses::tell(int rank, Word::Kind kind, std::vector<bool> flags) {
  std::erase_if(sent_, [](const Sent& sent) { return sent.transfer->done(); });
  Sent& sent = sent_.emplace_back();
  sent.bytes = {static_cast<std::byte>(kind), static_cast<std::byte>(number_ & 0xFFU),
                static_cast<std::byte>(number_ >> 8U)};
  flags.resize(words_.size());
  for (const bool flag : flags) sent.bytes.push_back(flag ? std::byte{1} : std::byte{0});
  sent.transfer = started(links_->to(rank, Lane::watch, kTagOfWords, sent.bytes));
}

}  // namespace telar
