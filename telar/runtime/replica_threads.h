#pragma once

#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace telar {

/// One thread for each replica, kept for the whole session, because a thread keeps its OpenMP team and
/// affinity. A single replica uses the caller's thread.
class ReplicaThreads {
 public:
  explicit ReplicaThreads(int count);
  ~ReplicaThreads();
  ReplicaThreads(const ReplicaThreads&) = delete;
  ReplicaThreads& operator=(const ReplicaThreads&) = delete;

  /// Calls work(rank) on every thread and waits for all. If the work throws, on_failure(rank) is called on
  /// the same thread, so that it can end the waits of the others. Then the first exception is thrown again.
  void run(const std::function<void(int)>& work, const std::function<void(int)>& on_failure);

 private:
  void loop(int rank);
  void call(int rank);

  int count_;
  std::mutex mutex_;
  std::condition_variable start_;
  std::condition_variable finished_;
  uint64_t turn_ = 0;
  int running_ = 0;
  bool stopping_ = false;
  const std::function<void(int)>* work_ = nullptr;
  const std::function<void(int)>* on_failure_ = nullptr;
  std::exception_ptr first_error_;
  std::vector<std::thread> threads_;
};

}  // namespace telar
