#include "telar/comm/processes.h"

#include <mpi.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <memory>
#include <vector>

#include "telar/comm/mpi/member.h"
#include "telar/comm/mpi/watch.h"
#include "telar/core/error.h"

namespace telar {

namespace {

/// Starting MPI takes a while and needs its daemon, so a process that was started alone does not.
bool started_by_mpi() {
  return std::ranges::any_of(
      std::vector<const char*>{"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_SIZE"}, [](const char* name) {
        return std::getenv(name) != nullptr;  // NOLINT(concurrency-mt-unsafe): one thread
      });
}

class MpiProcesses final : public Processes {
 public:
  MpiProcesses()
      : comm_(mpi::copy_of(MPI_COMM_WORLD)),
        watched_(mpi::copy_of(MPI_COMM_WORLD)),
        watch_(new mpi::Watch(watched_)) {
    MPI_Comm_rank(comm_, &rank_);
    MPI_Comm_size(comm_, &size_);
    MPI_Comm host = MPI_COMM_NULL;
    MPI_Comm_split_type(comm_, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &host);
    MPI_Comm_size(host, &on_this_host_);
    MPI_Comm_free(&host);
  }
  ~MpiProcesses() override {
    watch_.reset();
    MPI_Comm_free(&watched_);
    MPI_Comm_free(&comm_);
    MPI_Finalize();
  }
  MpiProcesses(const MpiProcesses&) = delete;
  MpiProcesses& operator=(const MpiProcesses&) = delete;

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  int on_this_host() const override { return on_this_host_; }

  void broadcast(std::span<std::byte> bytes) override {
    constexpr size_t kMost = size_t{1} << 30;
    for (; !bytes.empty(); bytes = bytes.subspan(std::min(kMost, bytes.size()))) {
      const auto count = static_cast<int>(std::min(kMost, bytes.size()));
      MPI_Request request = MPI_REQUEST_NULL;
      MPI_Ibcast(bytes.data(), count, MPI_BYTE, 0, comm_, &request);
      wait(request);
    }
  }

  bool any(bool value) override {
    int all = value ? 1 : 0;
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Iallreduce(MPI_IN_PLACE, &all, 1, MPI_INT, MPI_MAX, comm_, &request);
    wait(request);
    return all != 0;
  }

  void require_same(const std::string& text, const std::string& what) override {
    std::string first = text;
    Processes::broadcast(first);
    int differs = first == text ? std::numeric_limits<int>::max() : rank_;
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Iallreduce(MPI_IN_PLACE, &differs, 1, MPI_INT, MPI_MIN, comm_, &request);
    wait(request);
    if (differs < size_) throw user_error("rank {} differs from rank 0 in {}", differs, what);
  }

  std::unique_ptr<Group> join(Group& local) override {
    require_same(std::to_string(local.size()), "the number of its replicas");
    return std::make_unique<mpi::Member>(local, comm_, *watch_);
  }

  void abort(int code) override { MPI_Abort(MPI_COMM_WORLD, code); }

 private:
  void wait(MPI_Request& request) const {
    watch_->wait_until([&] {
      int done = 0;
      MPI_Test(&request, &done, MPI_STATUS_IGNORE);
      return done != 0;
    });
  }

  MPI_Comm comm_;
  MPI_Comm watched_;
  std::unique_ptr<mpi::Watch> watch_;
  int rank_ = 0;
  int size_ = 1;
  int on_this_host_ = 1;
};

}  // namespace

std::unique_ptr<Processes> join_processes() {
  if (!started_by_mpi()) return nullptr;
  int given = 0;
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &given);
  if (given < MPI_THREAD_MULTIPLE) {
    MPI_Finalize();
    throw user_error(
        "this MPI library cannot be called by several threads (MPI_THREAD_MULTIPLE); use one that can");
  }
  auto processes = std::make_unique<MpiProcesses>();
  if (processes->size() == 1) return nullptr;
  return processes;
}

}  // namespace telar
