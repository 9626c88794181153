#include "telar/comm/mpi/member.h"

#include <algorithm>

namespace telar::mpi {

namespace {

constexpr size_t kLine = 64;  // bytes: shards are cut at cache lines

}  // namespace

Member::Member(Group& local, MPI_Comm comm, const Watch& watch, bool share_memory, int channel)
    : local_(local),
      comm_(comm),
      channel_(channel),
      buckets_(copy_of(comm)),
      small_(copy_of(comm)),
      watch_(watch),
      share_memory_(share_memory),
      sums_(make_mpi_sums(buckets_)) {
  MPI_Comm_rank(comm, &process_);
  MPI_Comm_size(comm, &processes_);
}

Member::~Member() {
  MPI_Comm_free(&buckets_);
  MPI_Comm_free(&small_);
}

std::span<std::byte> Member::allocate(size_t bytes) {
  if (!share_memory_) return local_.allocate(bytes);
  sums_ = make_mpi_sums(buckets_);
  regions_ = SharedRegions::make(small_, watch_, bytes);
  if (regions_ == nullptr) return local_.allocate(bytes);
  sums_ = make_shared_sums(*regions_);
  return regions_->own();
}

std::pair<size_t, size_t> Member::part(size_t count) const {
  const auto [begin, end] = local_.shard(count);
  const auto [from, to] = shard_of(end - begin, process_, processes_);
  return {begin + from, begin + to};
}

void Member::start(std::span<float> bucket, SumTo to) {
  local_.start_reduce_scatter(bucket);
  const auto [begin, end] = local_.shard(bucket.size());
  shards_.push_back({bucket.subspan(begin, end - begin), to});
}

size_t Member::poll() { return advance(local_.poll()); }

void Member::finish() {
  local_.finish();
  watch_.wait_until([this] { return advance(shards_.size()) == shards_.size(); });
  sums_->clear();
  shards_.clear();
  given_ = 0;
}

size_t Member::advance(size_t summed) {
  for (; given_ < summed; ++given_) sums_->add(shards_[given_].values, shards_[given_].to);
  return sums_->complete();
}

void Member::all_reduce(std::span<float> values) {
  local_.all_reduce(values);
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Iallreduce(MPI_IN_PLACE, values.data(), count_of(values.size()), MPI_FLOAT, MPI_SUM, small_, &request);
  watch_.wait(request);
}

void Member::all_gather(std::span<float> rows) {
  const size_t block = rows.size() / static_cast<size_t>(processes_);
  local_.all_gather(rows.subspan(static_cast<size_t>(process_) * block, block));
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Iallgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, rows.data(), count_of(block), MPI_FLOAT, small_,
                 &request);
  watch_.wait(request);
}

void Member::share_parts(std::span<const std::span<float>> ranges) {
  size_t largest = 0;
  for (const std::span<float> range : ranges) largest = std::max(largest, range.size_bytes());
  Windows* shared = windows((largest / static_cast<size_t>(processes_)) + kLine);
  for (const std::span<float> range : ranges) {
    const auto [begin, end] = local_.shard(range.size());
    const std::span<float> shard = range.subspan(begin, end - begin);
    shared != nullptr ? share_in_windows(*shared, shard) : share_by_messages(shard);
  }
}

void Member::share_in_windows(Windows& windows, std::span<float> shard) const {
  const auto part_of = [&](int process) {
    const auto [begin, end] = shard_of(shard.size(), process, processes_);
    return std::as_writable_bytes(shard.subspan(begin, end - begin));
  };
  std::ranges::copy(part_of(process_), windows.own().begin());
  windows.meet();
  for (int process = 0; process < processes_; ++process) {
    const std::span<std::byte> part = part_of(process);
    if (process != process_) std::ranges::copy(windows.of(process).first(part.size()), part.begin());
  }
}

void Member::share_by_messages(std::span<float> shard) {
  std::vector<int> counts;
  std::vector<int> offsets;
  for (int process = 0; process < processes_; ++process) {
    const auto [begin, end] = shard_of(shard.size(), process, processes_);
    counts.push_back(count_of(end - begin));
    offsets.push_back(count_of(begin));
  }
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Iallgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, shard.data(), counts.data(), offsets.data(), MPI_FLOAT,
                  small_, &request);
  watch_.wait(request);
}

Windows* Member::windows(size_t bytes) {
  if (!share_memory_ || local_.size() > 1) return nullptr;
  if (windows_ == nullptr || windows_->bytes() < bytes) windows_ = SharedWindows::make(small_, watch_, bytes);
  return windows_.get();
}

void Member::exchange(Outgoing outgoing, Incoming incoming) {
  const int local = local_.size();
  const auto first = static_cast<size_t>(process_) * static_cast<size_t>(local);
  std::vector<MPI_Request> requests;
  for (int r = 0; r < size(); ++r) {
    const int process = r / local;
    const auto at = static_cast<size_t>(r);
    if (process == process_) continue;
    MPI_Irecv(incoming[at].data(), count_of(incoming[at].size()), MPI_BYTE, process,
              tag(r % local, local_.rank()), comm_, &requests.emplace_back());
    MPI_Isend(outgoing[at].data(), count_of(outgoing[at].size()), MPI_BYTE, process,
              tag(local_.rank(), r % local), comm_, &requests.emplace_back());
  }
  local_.exchange(outgoing.subspan(first, static_cast<size_t>(local)),
                  incoming.subspan(first, static_cast<size_t>(local)));
  for (MPI_Request& request : requests) watch_.wait(request);
}

}  // namespace telar::mpi
