#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "telar/comm/recovery/member.h"

namespace telar::recovery {

constexpr size_t kPieces = 4;  // of the state
constexpr int64_t kBatch = 6;  // samples of a step
constexpr int64_t kEpoch = 30;
constexpr int64_t kMostSteps = 60;
constexpr int64_t kCheckpoint = 4;  // steps between checkpoints
constexpr size_t kMostWorkers = 12;

/// What a defect would do to the protocol.
enum class Mutant {
  none,
  updates_before_the_exchange,  ///< without the commit point
  drops_what_one_has_applied,   ///< all keep what they have
  not_fenced,                   ///< who was given up is said to have ended
  tells_before_storing,
  ready_before_it_is,
  no_generation_check,
  logs_at_once,   ///< a line is written after its own step
  stops_too_late  ///< a member says that it has stopped, and computes on
};

struct Dice {
  uint64_t state;
  uint64_t roll() {  // splitmix64
    uint64_t z = state += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  size_t below(size_t count) { return static_cast<size_t>((roll() >> 32) * count >> 32); }
};

using Values = std::array<uint64_t, kPieces>;  // integers that overflow: sums do not depend on the order

/// What a sample adds to the gradient of a piece.
inline uint64_t gradient(int64_t sample, size_t piece) {
  return Dice{static_cast<uint64_t>(sample) * kPieces + piece}.roll() & 0xffff;
}

/// A batch of an epoch's order, which is another one in each epoch.
inline int64_t sample_of(int64_t step, int64_t i) {
  const int64_t at = (step - 1) * kBatch + i;
  return (at % kEpoch * 7 + at / kEpoch) % kEpoch;
}

inline uint64_t updated(uint64_t value, uint64_t sum, double norm) {
  return 3 * value + sum + static_cast<uint64_t>(norm);
}

/// The quiet run on one device: the state after each step, and the norms.
struct Quiet {
  std::array<Values, kMostSteps + 1> states;
  std::array<double, kMostSteps + 1> norms;
  Quiet() {
    states[0] = {1, 2, 3, 4};
    for (int64_t step = 1; step <= kMostSteps; ++step) {
      const auto s = static_cast<size_t>(step);
      Values sums = {};
      for (int64_t i = 0; i < kBatch; ++i)
        for (size_t p = 0; p < kPieces; ++p) sums[p] += gradient(sample_of(step, i), p);
      norms[s] = 0;
      for (const uint64_t sum : sums) norms[s] += static_cast<double>(sum);
      for (size_t p = 0; p < kPieces; ++p) states[s][p] = updated(states[s - 1][p], sums[p], norms[s]);
    }
  }
};
inline const Quiet& quiet() {
  static const Quiet run;
  return run;
}

/// A queue that keeps its memory.
template <typename T>
class Queue {
 public:
  bool empty() const { return first_ == items_.size(); }
  void push(T item) { items_.push_back(std::move(item)); }
  T& front() { return items_[first_]; }
  T pop() {
    T item = std::move(items_[first_++]);
    if (empty()) clear();
    return item;
  }
  void clear() {
    items_.clear();
    first_ = 0;
  }
  void keep(size_t count) {
    if (count < items_.size() - first_) items_.resize(first_ + count);
  }

 private:
  std::vector<T> items_;
  size_t first_ = 0;
};

/// Workers that make the steps of a run, in actions between which anything may happen to them. What the
/// coordinator sends and hears waits in their queues.
class SimulatedWorkers {
 protected:
  SimulatedWorkers(uint64_t seed, Mutant mutant, std::vector<std::string>* told)
      : dice_{seed},
        mutant_(mutant),
        told_(told),
        shared_(dice_.below(2) == 0),
        divided_(dice_.below(2) == 0) {
    workers_.reserve(kMostWorkers);
    regions_.emplace_back();  // nobody's
  }

  /// To another worker, in rounds of a step: parts of gradients, their sums, the norm, and a barrier.
  struct Packet {
    int64_t generation = 0;
    int64_t step = 0;
    int round = 0;
    Values values = {};
    double norm = 0;
  };
  struct Tag {
    int64_t generation = 0;
    int64_t step = 0;
    bool operator==(const Tag&) const = default;
  };
  /// Gradients in memory that others may see and write. Tags tell generations apart if it is used again.
  struct Region {
    Values values = {};
    Tag arrived;
    Tag delivered;
    int64_t generation = 0;  ///< for which its owner uses it
  };
  enum class Part : uint8_t { compute, receive, sum, write, wait, norm, apply, meet };
  struct Worker {
    explicit Worker(MemberId own) : id(own), machine(own) {}
    MemberId id;
    Member machine;
    bool alive = true;
    bool frozen = false;     ///< by SIGSTOP
    bool in_reach = true;    ///< of the coordinator, to kill it
    bool known = false;      ///< to the coordinator
    bool given_up = false;   ///< by it
    bool connected = false;  ///< with it
    bool greeted = false;    ///< it has read the connection's first message
    bool stop_wanted = false;
    int64_t stops_after = 0;
    bool computes = false;
    Generation generation;
    size_t rank = 0;
    size_t region = 0;
    std::vector<size_t> regions;  ///< of all members
    int64_t step = 0;             ///< that it makes
    Part part = Part::compute;
    size_t written = 0;  ///< to so many members
    Values sums = {};
    double norm = 0;
    std::array<bool, kMostWorkers> got = {};  ///< packets of this round, by rank
    Values state = {};
    std::optional<Prepare> prepare;
    bool moves = false;
    Values moved = {};
    size_t next_region = 0;
    std::array<bool, kMostWorkers> accused = {};
    Queue<Report> to_coordinator;
    Queue<Order> from_coordinator;
    std::array<Queue<Packet>, kMostWorkers> inbox;  ///< by sender
  };

  template <typename... Args>
  void tell(fmt::format_string<Args...> text, Args&&... args) {
    if (told_ != nullptr) told_->push_back(fmt::format(text, std::forward<Args>(args)...));
  }
  void fail(const std::string& what) {
    if (wrong_.empty()) wrong_ = what;
  }

  // What the strategy says: all keep all, or two keep each piece.

  bool keeps(size_t rank, size_t members, size_t piece) const {
    return !divided_ || piece % members == rank || (piece + 1) % members == rank;
  }
  std::optional<MemberId> giver(const std::vector<MemberId>& members, const std::vector<MemberId>& left,
                                size_t piece) const {
    for (size_t rank = 0; rank < members.size(); ++rank)
      if (keeps(rank, members.size(), piece) && std::ranges::count(left, members[rank]) > 0)
        return members[rank];
    return std::nullopt;
  }

  // What the machines order.

  void perform(Worker& worker) {
    for (Member::Action& action : worker.machine.take_actions())
      if (worker.alive) std::visit([&](auto& one) { perform(worker, one); }, action);
  }
  void perform(Worker& worker, Member::Send& send) {
    ++reports_;
    if (const auto* stopped = std::get_if<Stopped>(&send.report))
      most_outcomes_ = std::max(most_outcomes_, stopped->outcomes.size());
    if (worker.connected) worker.to_coordinator.push(std::move(send.report));
  }
  void perform(Worker& worker, const Member::Stop& stop) {
    worker.stop_wanted = true;
    worker.stops_after = stop.after;
    if (mutant_ == Mutant::stops_too_late) worker.machine.stopped();
  }
  void perform(Worker& worker, Member::Apply& apply) {
    tell("{} applies step {} after a loss", worker.id, apply.outcome.step);
    ++applied_later_;
    if (mutant_ == Mutant::drops_what_one_has_applied) return;
    update(worker, apply.outcome.step, apply.outcome.sums.front());
  }
  void perform(Worker& worker, Member::Move& move) {
    worker.prepare = std::move(move.prepare);
    worker.moves = true;
    worker.accused = {};
    worker.next_region = worker.region;
    if (worker.region == 0 || worker.prepare->new_memory) {
      regions_.emplace_back();
      worker.next_region = regions_.size() - 1;
    }
    if (mutant_ == Mutant::ready_before_it_is) worker.machine.prepared();
  }
  void perform(Worker& worker, Member::Adopt& adopt) {
    tell("{} is in generation {}", worker.id, adopt.generation.number);
    worker.generation = std::move(adopt.generation);
    worker.prepare.reset();
    worker.moves = worker.stop_wanted = false;
    worker.computes = !worker.generation.members.empty();
    worker.accused = {};
    if (!worker.computes) return;
    const std::vector<MemberId>& members = worker.generation.members;
    worker.rank = static_cast<size_t>(std::ranges::find(members, worker.id) - members.begin());
    worker.state = worker.moved;
    worker.region = worker.next_region;
    worker.regions.clear();
    for (const MemberId id : members) worker.regions.push_back(workers_[id].next_region);
    regions_[worker.region].generation = worker.generation.number;
    worker.step = worker.generation.base + 1;
    worker.part = Part::compute;
    check_state(worker, worker.generation.base);
  }
  void perform(Worker& worker, Member::End& /*end*/) { kill(worker); }

  void start_worker() {
    workers_.emplace_back(workers_.size()).in_reach = dice_.below(4) > 0;
    tell("{} is started", workers_.back().id);
  }
  void kill(Worker& worker) {
    if (!worker.alive) return;
    tell("{} ends", worker.id);
    worker.alive = false;
    for (Worker& other : workers_) other.inbox[worker.id].keep(dice_.below(4));
    worker.to_coordinator.keep(dice_.below(4));
  }

  // A step, in actions between which a worker may be stopped.

  size_t count(const Worker& worker) const { return worker.generation.members.size(); }
  Tag tag(const Worker& worker) const { return {worker.generation.number, worker.step}; }
  Region& own(const Worker& worker) { return regions_[worker.region]; }

  void act(Worker& worker, size_t most) {
    while (most > 0 && act(worker)) --most;
  }
  /// Returns whether it did something.
  bool act(Worker& worker) {
    if (!worker.alive || worker.frozen) return false;
    const bool stops = worker.stop_wanted && (!worker.computes || worker.step > worker.stops_after);
    if (stops && (!happening_ || dice_.below(4) > 0)) {  // otherwise an action is not complete yet
      dropped_ += worker.computes && worker.part != Part::compute ? 1 : 0;
      worker.stop_wanted = worker.moves = worker.computes = false;
      worker.prepare.reset();
      if (mutant_ != Mutant::stops_too_late) worker.machine.stopped();
      perform(worker);
      return true;
    }
    if (worker.moves) return move(worker);
    if (!worker.computes || worker.step > kMostSteps) return false;
    switch (worker.part) {
      case Part::compute: return compute(worker);
      case Part::receive: return receive(worker);
      case Part::sum: return sum(worker);
      case Part::write: return write(worker);
      case Part::wait: return wait(worker);
      case Part::norm: return exchange_norm(worker);
      case Part::apply: return apply(worker);
      case Part::meet: return meet(worker);
    }
    return false;
  }

  bool compute(Worker& worker) {
    Region& region = own(worker);
    region.values = {};
    for (auto i = static_cast<int64_t>(worker.rank); i < kBatch; i += static_cast<int64_t>(count(worker)))
      for (size_t p = 0; p < kPieces; ++p) region.values[p] += gradient(sample_of(worker.step, i), p);
    region.arrived = tag(worker);
    worker.sums = region.values;
    worker.part = shared_ ? Part::sum : Part::receive;
    if (!shared_) send_all(worker, 0);
    return true;
  }
  /// By messages: what the others have of the pieces that this worker sums.
  bool receive(Worker& worker) {
    const bool all = take_all(worker, 0, [&](size_t /*rank*/, const Packet& packet) {
      for (size_t p = worker.rank; p < kPieces; p += count(worker)) worker.sums[p] += packet.values[p];
    });
    if (!all) return false;
    send_all(worker, 1);
    worker.part = Part::wait;
    return true;
  }
  /// In shared memory.
  bool sum(Worker& worker) {
    for (const size_t r : worker.regions)
      if (regions_[r].arrived != tag(worker)) return false;
    for (size_t p = worker.rank; p < kPieces; p += count(worker)) {
      worker.sums[p] = 0;
      for (const size_t r : worker.regions) worker.sums[p] += regions_[r].values[p];
    }
    worker.written = 0;
    worker.part = Part::write;
    return true;
  }
  bool write(Worker& worker) {
    Region& to = regions_[worker.regions[worker.written]];
    if (to.generation > worker.generation.number) fail("memory of a later generation was written");
    for (size_t p = worker.rank; p < kPieces; p += count(worker)) to.values[p] = worker.sums[p];
    if (++worker.written < count(worker)) return true;
    own(worker).delivered = tag(worker);
    worker.part = Part::wait;
    return true;
  }
  bool wait(Worker& worker) {
    if (shared_) {
      for (const size_t r : worker.regions)
        if (regions_[r].delivered != tag(worker)) return false;
    } else {
      const bool all = take_all(worker, 1, [&](size_t rank, const Packet& packet) {
        for (size_t p = rank; p < kPieces; p += count(worker)) worker.sums[p] = packet.values[p];
      });
      if (!all) return false;
      own(worker).values = worker.sums;
    }
    worker.machine.summed(worker.step);
    worker.norm = 0;
    for (size_t p = worker.rank; p < kPieces; p += count(worker))
      worker.norm += static_cast<double>(own(worker).values[p]);
    worker.part = Part::norm;
    if (mutant_ != Mutant::updates_before_the_exchange) {
      send_all(worker, 2);
      return true;
    }
    pass(worker, quiet().norms[static_cast<size_t>(worker.step)]);
    return apply(worker);
  }
  bool exchange_norm(Worker& worker) {
    if (!take_all(worker, 2, [&](size_t /*rank*/, const Packet& packet) { worker.norm += packet.norm; }))
      return false;
    pass(worker, worker.norm);
    return true;
  }
  void pass(Worker& worker, double norm) {
    worker.norm = norm;
    worker.part = Part::apply;
    worker.machine.passed({.step = worker.step, .generation = worker.generation.number, .sums = {norm}});
    perform(worker);
  }
  bool apply(Worker& worker) {
    update(worker, worker.step, worker.norm);
    worker.machine.applied(worker.step);
    check_state(worker, worker.step);
    if (mutant_ == Mutant::logs_at_once && worker.rank == 0 && worker.connected)
      worker.to_coordinator.push(Line{.generation = worker.generation.number,
                                      .outcome = {worker.step, worker.generation.number, {worker.norm}}});
    worker.part = worker.step % kCheckpoint == 0 ? Part::meet : Part::compute;
    if (worker.part == Part::meet) send_all(worker, 3);
    if (worker.part == Part::compute) ++worker.step;
    return true;
  }
  /// The barrier after which a checkpoint is written.
  bool meet(Worker& worker) {
    if (!take_all(worker, 3, [](size_t /*rank*/, const Packet& /*packet*/) {})) return false;
    worker.machine.met();
    perform(worker);
    ++worker.step;
    worker.part = Part::compute;
    return true;
  }

  void update(Worker& worker, int64_t step, double norm) {
    if (own(worker).arrived.step != step) fail("a step is applied from the sums of another");
    for (size_t p = 0; p < kPieces; ++p)
      if (keeps(worker.rank, count(worker), p))
        worker.state[p] = updated(worker.state[p], own(worker).values[p], norm);
  }
  void check_state(const Worker& worker, int64_t step) {
    for (size_t p = 0; p < kPieces; ++p)
      if (keeps(worker.rank, count(worker), p) &&
          worker.state[p] != quiet().states[static_cast<size_t>(step)][p])
        fail(fmt::format("worker {} has a wrong state after step {}", worker.id, step));
  }

  void send_all(Worker& worker, int round) {
    worker.got = {};
    worker.got[worker.rank] = true;
    for (const MemberId id : worker.generation.members)
      if (id != worker.id && !cut_[id][worker.id] && workers_[id].alive)
        workers_[id].inbox[worker.id].push(
            {worker.generation.number, worker.step, round, worker.sums, worker.norm});
  }
  /// Takes what has arrived of a round. Returns whether all has.
  template <typename Take>
  bool take_all(Worker& worker, int round, const Take& take) {
    const bool checks = mutant_ != Mutant::no_generation_check;
    bool all = true;
    for (size_t rank = 0; rank < count(worker); ++rank) {
      Queue<Packet>& queue = worker.inbox[worker.generation.members[rank]];
      if (worker.got[rank]) continue;
      while (checks && !queue.empty() && queue.front().generation < worker.generation.number) queue.pop();
      const bool there = !queue.empty() && (!checks || queue.front().generation == worker.generation.number);
      worker.got[rank] = there && (!happening_ || dice_.below(4) > 0);  // otherwise it is still on its way
      if (worker.got[rank]) {
        const Packet packet = queue.pop();
        if (checks && (packet.step != worker.step || packet.round != round))
          fail("a message of another step was taken");
        take(rank, packet);
      }
      all = all && worker.got[rank];
    }
    return all;
  }

  /// Fills what it is to keep from the holdings of those who are left. Then it still gives what it holds.
  bool move(Worker& worker) {
    const Prepare& prepare = *worker.prepare;
    const std::vector<MemberId>& members = prepare.next.members;
    const auto rank = static_cast<size_t>(std::ranges::find(members, worker.id) - members.begin());
    for (size_t p = 0; rank < members.size() && p < kPieces; ++p) {
      if (!keeps(rank, members.size(), p)) continue;
      if (prepare.from.members.empty()) {  // from a checkpoint
        worker.moved[p] = quiet().states[static_cast<size_t>(prepare.next.base)][p];
        continue;
      }
      const Worker& from = workers_[*giver(prepare.from.members, prepare.sources, p)];
      if (!from.alive || from.frozen || cut_[worker.id][from.id] || !from.prepare ||
          from.prepare->next.number != prepare.next.number)
        return false;
      worker.moved[p] = from.state[p];
    }
    worker.moves = false;
    worker.machine.prepared();
    perform(worker);
    return true;
  }

  Dice dice_;
  const Mutant mutant_;
  std::vector<std::string>* told_;
  const bool shared_;   ///< sums are taken in shared memory, or by messages
  const bool divided_;  ///< two workers keep each piece of the state, or all keep all
  std::vector<Worker> workers_;
  std::array<std::array<bool, kMostWorkers>, kMostWorkers> cut_ = {};
  std::vector<Region> regions_;
  bool happening_ = false;  ///< between the beginning and the end, when all may go wrong
  int64_t applied_later_ = 0;
  int64_t dropped_ = 0;  ///< steps that a worker had begun
  size_t most_outcomes_ = 0;
  int64_t reports_ = 0;  ///< to the coordinator
  std::string wrong_;
};

}  // namespace telar::recovery
