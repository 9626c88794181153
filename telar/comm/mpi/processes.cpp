#include "telar/comm/processes.h"

#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "telar/comm/mpi/member.h"
#include "telar/comm/mpi/message.h"
#include "telar/comm/mpi/watch.h"
#include "telar/core/error.h"

namespace telar {

namespace {

/// Starting MPI takes a while, so a process that runs alone does not start it.
bool started_by_mpi() {
  return std::ranges::any_of(
      std::vector<const char*>{"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_SIZE"}, [](const char* name) {
        return std::getenv(name) != nullptr;  // NOLINT(concurrency-mt-unsafe): one thread
      });
}

/// Calls `late` if it exists for longer than the start of all processes may take.
class StartGuard {
 public:
  explicit StartGuard(std::function<void(const Error&)> late)
      : thread_([late = std::move(late)](const std::stop_token& stop) {
          std::mutex mutex;
          std::unique_lock lock(mutex);
          std::condition_variable_any never;
          never.wait_for(lock, stop, kPatience, [] { return false; });
          if (stop.stop_requested() || !late) return;
          late(run_error(
              "the processes of this run have not found each other for {} s: one of them was not started, was stopped, or its host cannot be reached",
              kPatience.count()));
        }) {}

 private:
  static constexpr std::chrono::seconds kPatience{28};
  std::jthread thread_;
};

class MpiProcesses final : public Processes {
 public:
  MpiProcesses()
      : comm_(mpi::copy_of(MPI_COMM_WORLD)),
        watched_(mpi::copy_of(MPI_COMM_WORLD)),
        messages_(mpi::copy_of(MPI_COMM_WORLD)),
        watch_(new mpi::Watch(watched_)) {
    MPI_Comm_rank(comm_, &rank_);
    MPI_Comm_size(comm_, &size_);
    MPI_Comm host = MPI_COMM_NULL;
    MPI_Comm_split_type(comm_, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &host);
    MPI_Comm_size(host, &on_this_host_);
    MPI_Comm_rank(host, &index_on_this_host_);
    MPI_Comm_free(&host);
  }
  ~MpiProcesses() override {
    watch_.reset();
    for (auto& [ranks, comm] : among_) MPI_Comm_free(&comm);
    MPI_Comm_free(&messages_);
    MPI_Comm_free(&watched_);
    MPI_Comm_free(&comm_);
    MPI_Finalize();
  }
  MpiProcesses(const MpiProcesses&) = delete;
  MpiProcesses& operator=(const MpiProcesses&) = delete;

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  int on_this_host() const override { return on_this_host_; }
  int index_on_this_host() const override { return index_on_this_host_; }

  void broadcast(std::span<std::byte> bytes, int from) override {
    constexpr size_t kMost = size_t{1} << 30;
    for (; !bytes.empty(); bytes = bytes.subspan(std::min(kMost, bytes.size()))) {
      const auto count = static_cast<int>(std::min(kMost, bytes.size()));
      MPI_Request request = MPI_REQUEST_NULL;
      MPI_Ibcast(bytes.data(), count, MPI_BYTE, from, comm_, &request);
      watch_->wait(request);
    }
  }

  int lowest(int value) override {
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Iallreduce(MPI_IN_PLACE, &value, 1, MPI_INT, MPI_MIN, comm_, &request);
    watch_->wait(request);
    return value;
  }

  void lowest(std::span<float> values) override {
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Iallreduce(MPI_IN_PLACE, values.data(), mpi::count_of(values.size()), MPI_FLOAT, MPI_MIN, comm_,
                   &request);
    watch_->wait(request);
  }

  void sleep_until_all_come() override {
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Ibarrier(comm_, &request);
    watch_->wait_until([&] {
      int done = 0;
      MPI_Test(&request, &done, MPI_STATUS_IGNORE);
      if (done == 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));
      return done != 0;
    });
  }

  void library_all_reduce(std::span<float> values) override {
    MPI_Allreduce(MPI_IN_PLACE, values.data(), mpi::count_of(values.size()), MPI_FLOAT, MPI_SUM, comm_);
  }

  std::unique_ptr<Group> join(Group& local) override {
    require_same(std::to_string(local.size()), "the number of its replicas");
    return std::make_unique<mpi::Member>(local, comm_, *watch_, share_memory_ && on_this_host_ == size_, 0);
  }

  std::unique_ptr<Group> join_some(Group& local, const std::vector<int>& ranks, int channel) override {
    // Buckets are in the memory that all processes share, if any (ReplicaGroups); this group sums by MPI.
    return std::make_unique<mpi::Member>(local, among(ranks), *watch_, false, channel);
  }

  std::unique_ptr<Transfer> message_to(int rank, int tag, std::span<const std::byte> bytes) override {
    return mpi::message_to(messages_, rank, tag, bytes);
  }
  std::unique_ptr<Transfer> message_from(int rank, int tag, std::span<std::byte> bytes) override {
    return mpi::message_from(messages_, rank, tag, bytes);
  }

  void share_memory(bool share) override { share_memory_ = share; }

  void when_lost(std::function<void(const Error&)> last_resort) override {
    watch_->when_lost(std::move(last_resort));
  }

  void abort(int code) override { MPI_Abort(MPI_COMM_WORLD, code); }

 private:
  /// A communicator of these processes, which call it together the first time.
  MPI_Comm among(const std::vector<int>& ranks) {
    const auto [known, fresh] = among_.try_emplace(ranks, MPI_COMM_NULL);
    if (!fresh) return known->second;
    MPI_Group all = MPI_GROUP_NULL;
    MPI_Group some = MPI_GROUP_NULL;
    MPI_Comm_group(comm_, &all);
    MPI_Group_incl(all, static_cast<int>(ranks.size()), ranks.data(), &some);
    MPI_Comm_create_group(comm_, some, 0, &known->second);
    MPI_Group_free(&some);
    MPI_Group_free(&all);
    return known->second;
  }

  MPI_Comm comm_;
  std::map<std::vector<int>, MPI_Comm> among_;  ///< by their ranks
  MPI_Comm watched_;
  MPI_Comm messages_;
  std::unique_ptr<mpi::Watch> watch_;
  int rank_ = 0;
  int size_ = 1;
  int on_this_host_ = 1;
  int index_on_this_host_ = 0;
  bool share_memory_ = true;
};

}  // namespace

bool can_join_processes() { return true; }

std::unique_ptr<Processes> join_processes(std::function<void(const Error&)> late) {
  if (started_by_mpi()) {
    const StartGuard guard(std::move(late));
    int given = 0;
    MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &given);
    if (given < MPI_THREAD_MULTIPLE) {
      MPI_Finalize();
      throw user_error(
          "this MPI library cannot be called by several threads (MPI_THREAD_MULTIPLE); use one that can");
    }
    auto processes = std::make_unique<MpiProcesses>();
    if (processes->size() > 1) return processes;
  }
  require_started_alone(
      "OpenMPI, with which telar is built, sees only this one, so each would train on its own: use OpenMPI's mpirun, or srun --mpi=pmix");
  return nullptr;
}

}  // namespace telar
