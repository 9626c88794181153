#include "telar/runtime/replica_threads.h"

#include <utility>

namespace telar {

ReplicaThreads::ReplicaThreads(int count) : count_(count) {
  if (count == 1) return;
  for (int rank = 0; rank < count; ++rank) threads_.emplace_back([this, rank] { loop(rank); });
}

ReplicaThreads::~ReplicaThreads() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  start_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void ReplicaThreads::run(const std::function<void(int)>& work, const std::function<void(int)>& on_failure) {
  if (count_ == 1) {
    work(0);
    return;
  }
  std::unique_lock lock(mutex_);
  work_ = &work;
  on_failure_ = &on_failure;
  running_ = count_;
  ++turn_;
  start_.notify_all();
  finished_.wait(lock, [this] { return running_ == 0; });
  if (first_error_) std::rethrow_exception(std::exchange(first_error_, nullptr));
}

void ReplicaThreads::loop(int rank) {
  uint64_t seen = 0;
  while (true) {
    {
      std::unique_lock lock(mutex_);
      start_.wait(lock, [&] { return stopping_ || turn_ != seen; });
      if (stopping_) return;
      seen = turn_;
    }
    call(rank);
    const std::lock_guard lock(mutex_);
    if (--running_ == 0) finished_.notify_one();
  }
}

void ReplicaThreads::call(int rank) {
  try {
    (*work_)(rank);
  } catch (...) {
    {
      const std::lock_guard lock(mutex_);
      if (!first_error_) first_error_ = std::current_exception();
    }
    (*on_failure_)(rank);
  }
}

}  // namespace telar
