#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "support/sentences.h"
#include "telar/comm/members/coordinator.h"
#include "telar/comm/members/membership.h"

namespace telar::test {

/// Collects messages from any thread.
class Sentences {
 public:
  std::function<void(const std::string&)> writer() {
    return [this](const std::string& sentence) {
      const std::lock_guard lock(mutex_);
      all_.push_back(sentence);
      changed_.notify_all();
    };
  }
  /// Waits for a message that contains this part. The time limit only ends a test that fails.
  bool wait_for(const std::string& part) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(20), [&] { return has(part); });
  }
  bool contains(const std::string& part) {
    const std::lock_guard lock(mutex_);
    return has(part);
  }

 private:
  bool has(const std::string& part) const {
    for (const std::string& sentence : all_)
      if (sentence.find(part) != std::string::npos) return true;
    return false;
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> all_;
};

inline CoordinatorOptions coordinator_options(int64_t workers, Rhythm rhythm = Rhythm::free) {
  CoordinatorOptions options;
  options.job = "job-1";
  options.description = "what it is";
  options.servers = {"127.0.0.1:7001", "127.0.0.1:7002"};
  options.workers = workers;
  options.parts = workers;
  options.sizes.lease = 4;
  options.rhythm = rhythm;
  return options;
}

inline MembershipOptions member_options(const std::string& coordinator, std::string name = "m") {
  MembershipOptions options;
  options.coordinator = coordinator;
  options.patience_seconds = 20;
  options.name = std::move(name);
  return options;
}

/// Counts how often each part of each step was reported as used.
class Used {
 public:
  void add(uint32_t epoch, int64_t step, int64_t part) {
    const std::lock_guard lock(mutex_);
    ++count_[{epoch, step, part}];
  }
  size_t different() const {
    const std::lock_guard lock(mutex_);
    return count_.size();
  }
  int most() const {
    const std::lock_guard lock(mutex_);
    int most = 0;
    for (const auto& [what, count] : count_) most = std::max(most, count);
    return most;
  }

 private:
  mutable std::mutex mutex_;
  std::map<std::tuple<uint32_t, int64_t, int64_t>, int> count_;
};

/// Does what a worker does, until the training ends. `batch` is called before each part is used; it may throw
/// to simulate a failing worker.
struct WorkerLoop {
  Used* used = nullptr;
  bool rounds = false;
  std::function<void(Membership&, const Lease&, int64_t step)> batch;
  std::vector<StoreRound> seen = {};

  void run(Membership& membership) {
    while (membership.wait_for_work())
      while (const std::optional<Lease> lease = membership.lease()) work_on(membership, *lease);
  }

 private:
  void work_on(Membership& membership, const Lease& lease) {
    if (rounds) return work_in_round(membership, lease);
    for (int64_t step = lease.begin; step < lease.end; ++step) {
      membership.wait_for_turn(lease.works.front());
      if (batch) batch(membership, lease, step);
      report(membership, lease, step);
    }
  }

  void work_in_round(Membership& membership, const Lease& lease) {
    if (lease.applied) return report(membership, lease, lease.begin);
    const int64_t work = lease.works.front();
    while (const std::optional<Lease> earlier = membership.wait_for_turn(work))
      work_in_round(membership, *earlier);
    std::vector<Lease> parts{lease};
    std::set<uint64_t> leases{lease.id};
    if (batch) batch(membership, lease, lease.begin);
    while (const auto answer = membership.next_round(work, leases)) {
      if (const auto* round = std::get_if<StoreRound>(&*answer)) {
        if (!round->members.empty()) seen.push_back(*round);
        for (const Lease& part : parts) report(membership, part, part.begin, !round->members.empty());
        return;
      }
      const Lease& further = std::get<Lease>(*answer);
      if (further.works.front() != work || further.applied) {
        work_in_round(membership, further);
        continue;
      }
      if (batch) batch(membership, further, further.begin);
      parts.push_back(further);
      leases.insert(further.id);
    }
  }

  void report(Membership& membership, const Lease& lease, int64_t step, bool is_used = true) {
    if (is_used && used != nullptr && !membership.lost()) used->add(lease.epoch, step, lease.part);
    membership.done({.lease = lease.id, .step = step, .samples = 8, .metrics = {1.0}});
  }
};

/// Runs an epoch and returns all its steps as the coordinator reports them.
inline std::vector<StepDone> steps_of_epoch(Coordinator& coordinator, uint32_t epoch, int64_t steps) {
  coordinator.begin_epoch(epoch, 0, steps);
  std::vector<StepDone> all;
  const auto start = std::chrono::steady_clock::now();
  while (!coordinator.epoch_finished()) {
    for (StepDone& step : coordinator.wait(0.5)) all.push_back(std::move(step));
    if (std::chrono::steady_clock::now() - start > std::chrono::seconds(60)) {
      ADD_FAILURE() << "the epoch does not end";
      break;
    }
  }
  return all;
}

}  // namespace telar::test
