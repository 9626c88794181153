#pragma once

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "telar/comm/processes.h"
#include "telar/comm/thread_group.h"

namespace telar::test {

/// Forwards to a group member that has another owner.
class Borrowed final : public Group {
 public:
  explicit Borrowed(Group& group) : group_(group) {}
  int rank() const override { return group_.rank(); }
  int size() const override { return group_.size(); }
  std::pair<size_t, size_t> shard(size_t count) const override { return group_.shard(count); }
  std::pair<size_t, size_t> part(size_t count) const override { return group_.part(count); }
  std::span<std::byte> allocate(size_t bytes) override { return group_.allocate(bytes); }
  void start_reduce_scatter(std::span<float> bucket) override { group_.start_reduce_scatter(bucket); }
  size_t poll() override { return group_.poll(); }
  void finish() override { group_.finish(); }
  void all_reduce(std::span<float> values) override { group_.all_reduce(values); }
  double sum_over_shards(double value) override { return group_.sum_over_shards(value); }
  void all_gather(std::span<float> rows) override { group_.all_gather(rows); }
  void barrier() override { group_.barrier(); }
  void share_shards(std::span<float> bucket) override { group_.share_shards(bucket); }
  void exchange(Outgoing outgoing, Incoming incoming) override { group_.exchange(outgoing, incoming); }
  void check() const override { group_.check(); }

 private:
  Group& group_;
};

/// A thread that plays a process with one replica: see as_processes().
class ThreadProcess final : public Processes {
 public:
  /// This process's members of two groups of equal size: the group of processes and the group of replicas.
  ThreadProcess(Group& processes, Group& replicas) : processes_(processes), replicas_(replicas) {}
  int rank() const override { return processes_.rank(); }
  int size() const override { return processes_.size(); }
  int on_this_host() const override { return size(); }
  int index_on_this_host() const override { return rank(); }
  void broadcast(std::span<std::byte> bytes, int from) override {
    const size_t length = (bytes.size() + sizeof(float) - 1) / sizeof(float);
    if (length == 0) return;
    std::vector<float> rows(length * static_cast<size_t>(size()));
    std::memcpy(&rows[length * static_cast<size_t>(rank())], bytes.data(), bytes.size());
    processes_.all_gather(rows);
    std::memcpy(bytes.data(), &rows[length * static_cast<size_t>(from)], bytes.size());
  }
  int lowest(int value) override {
    std::vector<float> all(static_cast<size_t>(size()));
    all[static_cast<size_t>(rank())] = static_cast<float>(value);
    processes_.all_gather(all);
    return static_cast<int>(*std::min_element(all.begin(), all.end()));
  }
  void lowest(std::span<float> /*values*/) override { std::abort(); }
  void sleep_until_all_come() override { processes_.barrier(); }
  void library_all_reduce(std::span<float> values) override { processes_.all_reduce(values); }
  std::unique_ptr<Group> join(Group& /*local*/) override { return std::make_unique<Borrowed>(replicas_); }
  std::unique_ptr<Group> join_some(Group&, const std::vector<int>&, int) override { std::abort(); }
  std::unique_ptr<Transfer> message_to(int, int, std::span<const std::byte>) override { std::abort(); }
  std::unique_ptr<Transfer> message_from(int, int, std::span<std::byte>) override { std::abort(); }
  void share_memory(bool /*share*/) override {}
  void when_lost(std::function<void(const Error&)> /*last_resort*/) override {}
  void check() const override {}
  void abort(int /*code*/, const std::string& /*why*/) override { std::abort(); }

 private:
  Group& processes_;
  Group& replicas_;
};

/// Runs `body(process)` for `count` processes at the same time.
/// If some of them throw, rethrows the first exception: the others may only say that they stopped with it.
template <typename Body>
void as_processes(int count, const Body& body) {
  ThreadTeam processes(count);
  ThreadTeam replicas(count);
  std::mutex mutex;
  std::exception_ptr first;
  {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < count; ++rank) {
      threads.emplace_back([&, rank] {
        try {
          ThreadProcess process(processes.member(rank), replicas.member(rank));
          body(process);
        } catch (...) {
          const std::lock_guard lock(mutex);
          if (!first) first = std::current_exception();
          processes.fail(rank);
          replicas.fail(rank);
        }
      });
    }
  }
  if (first) std::rethrow_exception(first);
}

}  // namespace telar::test
