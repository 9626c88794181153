#include "telar/comm/mpi/watch.h"

#include <utility>

namespace telar::mpi {

Watch::Watch(MPI_Comm comm) : comm_(comm) {
  MPI_Comm_rank(comm, &rank_);
  MPI_Comm_size(comm, &size_);
  heard_.assign(static_cast<size_t>(size_), Clock::now());
  spoken_.assign(static_cast<size_t>(size_), MPI_REQUEST_NULL);
  thread_ = std::jthread([this](const std::stop_token& stop) {
    constexpr std::chrono::milliseconds kNap{50};
    constexpr std::chrono::seconds kAbsence{5};
    for (auto next = Clock::now(); !stop.stop_requested(); std::this_thread::sleep_for(kNap)) {
      const auto now = Clock::now();
      if (now < next) continue;
      // A process that was stopped and resumed must not consider the others silent.
      if (now - next > kAbsence) heard_.assign(heard_.size(), now);
      next = now + kEvery;
      listen();
      judge();
      speak();
    }
  });
}

/// All processes come here at the end. Rank 0 may still be writing; the others keep watching it until it
/// comes. All sent messages must be received before MPI ends.
Watch::~Watch() {
  MPI_Request all_here = MPI_REQUEST_NULL;
  MPI_Ibarrier(comm_, &all_here);
  for (int here = 0; here == 0; MPI_Test(&all_here, &here, MPI_STATUS_IGNORE)) {
    if (silent_.load(std::memory_order_relaxed) >= 0) MPI_Abort(comm_, 1);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  thread_.request_stop();
  thread_.join();
  MPI_Barrier(comm_);
  listen();
  for (MPI_Request& request : spoken_) {
    if (request != MPI_REQUEST_NULL) MPI_Request_free(&request);
  }
}

void Watch::check() const {
  const int silent = silent_.load(std::memory_order_relaxed);
  if (silent < 0) return;
  throw lost(silent);
}

Error Watch::lost(int rank) {
  return run_error(
      "the process of rank {} has not answered for {} s: it died, was stopped, or its host cannot be reached; the last checkpoint is whole; continue from it with --resume, with any number of processes",
      rank, kPatience.count());
}

void Watch::when_lost(std::function<void(const Error&)> last_resort) {
  const std::lock_guard lock(mutex_);
  last_resort_ = std::move(last_resort);
}

void Watch::listen() {
  while (true) {
    int there = 0;
    MPI_Status status;
    MPI_Iprobe(MPI_ANY_SOURCE, 0, comm_, &there, &status);
    if (there == 0) return;
    char word = 0;
    MPI_Recv(&word, 1, MPI_CHAR, status.MPI_SOURCE, 0, comm_, MPI_STATUS_IGNORE);
    heard_[static_cast<size_t>(status.MPI_SOURCE)] = Clock::now();
  }
}

void Watch::speak() {
  for (int other = 0; other < size_; ++other) {
    if (other == rank_) continue;
    MPI_Request& request = spoken_[static_cast<size_t>(other)];
    int gone = 1;
    if (request != MPI_REQUEST_NULL) MPI_Test(&request, &gone, MPI_STATUS_IGNORE);
    if (gone != 0) MPI_Isend(&word_, 1, MPI_CHAR, other, 0, comm_, &request);
  }
}

void Watch::judge() {
  for (int other = 0; other < size_; ++other) {
    const auto silence = Clock::now() - heard_[static_cast<size_t>(other)];
    if (other == rank_ || silence < kPatience) continue;
    silent_.store(other, std::memory_order_relaxed);
    if (silence < kPatience + kLastResort) continue;
    const std::lock_guard lock(mutex_);
    if (last_resort_) std::exchange(last_resort_, nullptr)(lost(other));
  }
}

}  // namespace telar::mpi
