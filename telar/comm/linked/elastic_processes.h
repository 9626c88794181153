#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "telar/comm/linked/linked_processes.h"
#include "telar/comm/linked/links.h"
#include "telar/comm/processes.h"

namespace telar {

/// Processes of which some may be lost: when an operation has failed and lost() is true, those who are left
/// call replace(), and are then another group with other ranks, the next *generation*. Connections stay; what
/// passes over them belongs to its generation, and so does all shared memory. Another process can take the
/// place of one that is lost: it is a group of its own until it calls replace(), too.
///
/// Rank 0 alone forms the generations, and keeps its rank. A generation that cannot be formed because one
/// more is lost is followed by another attempt. If rank 0 is lost, the lowest of those who are left becomes
/// rank 0 if it can hold the run (when_first_is_lost()), which must be possible to one process only.
/// docs/design.md, "A step is made again by those who are left", says what the run does with it.
class ElasticProcesses final : public Processes {
 public:
  /// `least`: processes without which the run ends. All of them call it. Waits.
  ElasticProcesses(std::unique_ptr<ElasticLinks> links, int least);
  ~ElasticProcesses() override;
  ElasticProcesses(const ElasticProcesses&) = delete;
  ElasticProcesses& operator=(const ElasticProcesses&) = delete;

  /// Who is not the same as in the generation before: "rank 2 (host:pid), rank 3 (host:pid)".
  struct Changes {
    std::string lost;
    std::string come;
    bool over = false;  ///< in one that has come: the others have ended before it took part
  };
  /// Forms the next generation of those who are left and of those who have come. What was made by the one
  /// before (groups, transfers) may be destroyed, but no more used. Returns what has changed since the last
  /// call, in rank 0. Throws Error (run) if rank 0 is lost and nobody takes over, too few are left, or this
  /// process was given up.
  Changes replace();
  /// Whether a process has not answered for as long as Watch waits.
  using Silent = std::function<bool()>;
  /// `take_over` is called when this process is to become rank 0, with whether the one before is silent. It
  /// makes sure that no other process is rank 0, and never will be again, or throws. Without it, this process
  /// ends with rank 0.
  void when_first_is_lost(std::function<void(const Silent& silent)> take_over) {
    take_over_ = std::move(take_over);
  }
  /// In rank 0: processes may take the places of those that are lost, at address(). They are told
  /// `description`.
  void admit(const std::string& description) { links_->admit(description); }
  /// Where this process listens, HOST:PORT.
  std::string address() const { return links_->address(); }
  /// In rank 0, when nothing is left of earlier generations: whether a process waits to take part, which it
  /// does from the next replace() on.
  bool someone_waits();
  /// Whether this process has come later, and has not taken part yet.
  bool waits() const { return number_ == 0; }
  /// Call when nothing is left of what earlier generations have made.
  void drop_earlier();

  int rank() const override { return now().rank(); }
  int size() const override { return now().size(); }
  int on_this_host() const override { return now().on_this_host(); }
  int index_on_this_host() const override { return now().index_on_this_host(); }
  void broadcast(std::span<std::byte> bytes, int from) override { now().broadcast(bytes, from); }
  int lowest(int value) override { return now().lowest(value); }
  void lowest(std::span<float> values) override { now().lowest(values); }
  void sleep_until_all_come() override { now().sleep_until_all_come(); }
  void library_all_reduce(std::span<float> values) override { now().library_all_reduce(values); }
  std::unique_ptr<Group> join(Group& local) override { return now().join(local); }
  std::unique_ptr<Group> join_some(Group& local, const std::vector<int>& ranks, int channel) override {
    return now().join_some(local, ranks, channel);
  }
  std::unique_ptr<Transfer> message_to(int rank, int tag, std::span<const std::byte> bytes) override {
    return now().message_to(rank, tag, bytes);
  }
  std::unique_ptr<Transfer> message_from(int rank, int tag, std::span<std::byte> bytes) override {
    return now().message_from(rank, tag, bytes);
  }
  void share_memory(bool share) override;
  /// Never calls it: whoever is lost, the others notice at their next operation.
  void when_lost(std::function<void(const Error&)> /*last_resort*/) override {}
  void check() const override { now().check(); }
  void abort(int code, const std::string& why) override { links_->abort(code, why); }

 private:
  /// What the process that leads and another one tell each other. Each has one `flag` for each process.
  struct Word {
    enum class Kind : uint8_t {
      lost,     ///< to the leader: the sender cannot go on; flags: whom it cannot reach
      stop,     ///< to the others: say so when nothing is done any more
      stopped,  ///< to the leader: the answer; flags as of lost
      form,     ///< to the others: the next generation; flags: its members
      end       ///< to the others: the receiver is no member any more
    };
    Kind kind = Kind::lost;
    uint16_t number = 0;  ///< of the attempt
    std::vector<bool> flags;
  };
  /// A word on its way.
  struct Sent {
    std::vector<std::byte> bytes;  ///< of the transfer
    std::unique_ptr<Transfer> transfer;
  };

  LinkedProcesses& now() const { return *generations_.back(); }
  void make_generation(uint16_t number, std::vector<int> ranks);
  bool leads() const { return links_->rank() == leader_; }
  void lead();
  void follow();
  /// Does what the leader has said. Returns whether there is a new generation.
  bool obey(const Word& word);
  /// What happens when the leader is lost. Returns whether this process leads now.
  bool succeed(const std::string& why_lost);
  bool is_heir() const;
  /// The next word of the leader, or of a process that leads now; empty: nobody has said one.
  std::optional<Word> heard();
  /// Returns the ranks whose places others have taken.
  std::vector<int> meet_newcomers();
  void give_up(int rank);
  void add_name(std::string& names, int rank) const;
  void await_words(int rank);
  /// Takes a word of a process: its answer to this attempt, or whom it cannot reach. Returns whether it has
  /// stopped.
  bool take(int rank, const Word& word);
  void wait_until_stopped();
  /// Gives up whom most of the others cannot reach.
  void exclude_unreachable();
  void require_enough();

  bool is_silent(int rank) const;
  std::string why_unreachable(int rank) const;
  std::vector<bool> unreachable() const;
  bool has_word(int rank) const { return words_[static_cast<size_t>(rank)]->done(); }
  Word next_word(int rank);
  void tell(int rank, Word::Kind kind, std::vector<bool> flags = {});

  std::unique_ptr<ElasticLinks> links_;
  int least_;
  int leader_;  ///< its rank among all; rank 0 of each generation
  std::function<void(const Silent&)> take_over_;
  std::optional<std::chrono::steady_clock::time_point> without_since_;  ///< the leader, if it is lost
  bool share_memory_ = true;
  bool over_ = false;                    ///< replace() has failed: there is nobody to wait for at the end
  uint16_t number_ = 1;                  ///< of the last attempt
  std::set<int> left_;                   ///< ranks among all; in the leader, those that are not given up
  Changes changes_;                      ///< since the last replace()
  std::set<int> come_;                   ///< who has come and not taken part yet
  std::set<std::pair<int, int>> apart_;  ///< who cannot reach each other
  std::vector<std::vector<std::byte>> inbox_;     ///< of words_
  std::vector<std::shared_ptr<Transfer>> words_;  ///< the next one from each; null: not awaited
  std::vector<Sent> sent_;
  std::vector<int> ranks_;                                     ///< of the last generation, among all
  std::set<int> wanted_;                                       ///< of the last attempt at one
  std::set<int> silent_;                                       ///< who has not answered in that attempt
  std::vector<std::unique_ptr<LinkedProcesses>> generations_;  ///< the last one is in use
};

}  // namespace telar
