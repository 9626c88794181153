#include "telar/comm/mpi/mpi_links.h"

#include <fmt/format.h>
#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "telar/core/error.h"

namespace telar {

namespace {

/// A number of values as MPI's int. Throws Error (user) if it is too large for one call.
int count_of(size_t values) {
  if (values > static_cast<size_t>(std::numeric_limits<int>::max())) {
    throw user_error("a bucket of {} values is too large for one MPI call; lower strategy.bucket_mb", values);
  }
  return static_cast<int>(values);
}

/// A persistent request: what a message needs is made once.
class MpiTransfer final : public Transfer {
 public:
  MpiTransfer() = default;
  ~MpiTransfer() override {
    int done = 0;
    MPI_Test(&request_, &done, MPI_STATUS_IGNORE);
    // A message that has not passed belongs to a step that has failed.
    if (done == 0) MPI_Cancel(&request_);
    MPI_Request_free(&request_);
  }
  MpiTransfer(const MpiTransfer&) = delete;
  MpiTransfer& operator=(const MpiTransfer&) = delete;

  void start() override { MPI_Start(&request_); }
  bool done() override {
    int done = 0;
    MPI_Test(&request_, &done, MPI_STATUS_IGNORE);
    return done != 0;
  }

  MPI_Request* request() { return &request_; }

 private:
  MPI_Request request_ = MPI_REQUEST_NULL;
};

class MpiLinks final : public ProcessLinks {
 public:
  MpiLinks() {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
    for (MPI_Comm& lane : lanes_) MPI_Comm_dup(MPI_COMM_WORLD, &lane);
    MPI_Comm host = MPI_COMM_NULL;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &host);
    int first = rank_;  // the rank of the host's first process
    MPI_Bcast(&first, 1, MPI_INT, 0, host);
    MPI_Comm_free(&host);
    hosts_.resize(static_cast<size_t>(size_));
    MPI_Allgather(&first, 1, MPI_INT, hosts_.data(), 1, MPI_INT, MPI_COMM_WORLD);
    Name own{};
    gethostname(own.data(), own.size() - 1);
    names_.resize(static_cast<size_t>(size_));
    MPI_Allgather(own.data(), kLongestName, MPI_CHAR, names_.data(), kLongestName, MPI_CHAR, MPI_COMM_WORLD);
  }
  ~MpiLinks() override {
    for (MPI_Comm& lane : lanes_) MPI_Comm_free(&lane);
    MPI_Finalize();
  }
  MpiLinks(const MpiLinks&) = delete;
  MpiLinks& operator=(const MpiLinks&) = delete;

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::string name(int rank) const override {
    return fmt::format("rank {} ({})", rank, names_[static_cast<size_t>(rank)].data());
  }
  std::string host(int rank) const override { return std::to_string(hosts_[static_cast<size_t>(rank)]); }

  std::unique_ptr<Transfer> to(int rank, Lane lane, int tag, std::span<const std::byte> bytes) override {
    auto transfer = std::make_unique<MpiTransfer>();
    MPI_Send_init(bytes.data(), count_of(bytes.size()), MPI_BYTE, rank, tag, of(lane), transfer->request());
    return transfer;
  }
  std::unique_ptr<Transfer> from(int rank, Lane lane, int tag, std::span<std::byte> bytes) override {
    auto transfer = std::make_unique<MpiTransfer>();
    MPI_Recv_init(bytes.data(), count_of(bytes.size()), MPI_BYTE, rank, tag, of(lane), transfer->request());
    return transfer;
  }

  void check() const override {}  // MPI ends all processes of which it loses one, or does not notice
  void rest() const override { std::this_thread::yield(); }
  void all_reduce(std::span<float> values) override {
    MPI_Allreduce(MPI_IN_PLACE, values.data(), count_of(values.size()), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  }
  [[noreturn]] void abort(int code, const std::string& /*why*/) override {
    MPI_Abort(MPI_COMM_WORLD, code);
    std::_Exit(code);
  }

 private:
  static constexpr int kLongestName = 256;
  using Name = std::array<char, kLongestName>;

  MPI_Comm of(Lane lane) const { return lanes_[static_cast<size_t>(lane)]; }

  int rank_ = 0;
  int size_ = 1;
  std::array<MPI_Comm, kLanes> lanes_{};
  std::vector<int> hosts_;
  std::vector<Name> names_;
};

}  // namespace

std::unique_ptr<ProcessLinks> make_mpi_links() { return std::make_unique<MpiLinks>(); }

}  // namespace telar
