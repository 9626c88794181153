#include "telar/comm/mpi/member.h"

#include <limits>

#include "telar/core/error.h"

namespace telar::mpi {

namespace {

int count_of(size_t values) {
  if (values > static_cast<size_t>(std::numeric_limits<int>::max())) {
    throw user_error("a bucket of {} values is more than MPI can send at once; lower strategy.bucket_mb",
                     values);
  }
  return static_cast<int>(values);
}

}  // namespace

Member::Member(Group& local, MPI_Comm comm, const Watch& watch)
    : local_(local), buckets_(copy_of(comm)), small_(copy_of(comm)), watch_(watch) {
  MPI_Comm_rank(comm, &process_);
  MPI_Comm_size(comm, &processes_);
}

Member::~Member() {
  MPI_Comm_free(&buckets_);
  MPI_Comm_free(&small_);
}

void Member::start_reduce_scatter(std::span<float> bucket) {
  local_.start_reduce_scatter(bucket);
  const auto [begin, end] = local_.shard(bucket.size());
  shards_.push_back(bucket.subspan(begin, end - begin));
}

size_t Member::poll() {
  advance(local_.poll());
  return complete_;
}

void Member::finish() {
  local_.finish();
  advance(shards_.size());
  watch_.wait_until([&] {
    advance(shards_.size());
    return complete_ == shards_.size();
  });
  shards_.clear();
  requests_.clear();
  complete_ = 0;
}

void Member::advance(size_t summed) {
  while (requests_.size() < summed) {
    const std::span<float> shard = shards_[requests_.size()];
    MPI_Iallreduce(MPI_IN_PLACE, shard.data(), count_of(shard.size()), MPI_FLOAT, MPI_SUM, buckets_,
                   &requests_.emplace_back());
  }
  while (complete_ < requests_.size()) {
    int done = 0;
    MPI_Test(&requests_[complete_], &done, MPI_STATUS_IGNORE);
    if (done == 0) return;
    ++complete_;
  }
}

void Member::all_reduce(std::span<float> values) {
  local_.all_reduce(values);
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Iallreduce(MPI_IN_PLACE, values.data(), count_of(values.size()), MPI_FLOAT, MPI_SUM, small_, &request);
  wait(request);
}

void Member::all_gather(std::span<float> rows) {
  const size_t block = rows.size() / static_cast<size_t>(processes_);
  local_.all_gather(rows.subspan(static_cast<size_t>(process_) * block, block));
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Iallgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, rows.data(), count_of(block), MPI_FLOAT, small_,
                 &request);
  wait(request);
}

void Member::wait(MPI_Request& request) const {
  watch_.wait_until([&] {
    int done = 0;
    MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    return done != 0;
  });
}

}  // namespace telar::mpi
