#include "telar/comm/linked/member.h"

#include <algorithm>
#include <functional>

namespace telar {

namespace {

constexpr size_t kLine = 64;  // bytes: shards are cut at cache lines
/// Rows up to this size pass through windows.
constexpr size_t kWindowRow = size_t{1} << 20;
constexpr size_t kLeastWindow = size_t{64} << 10;

Circle circle_of(ProcessLinks& links, const Watch& watch, const std::vector<int>& processes, Lane lane,
                 int tag) {
  const auto own = std::ranges::find(processes, links.rank());
  return {links, watch, processes, static_cast<int>(own - processes.begin()), lane, tag};
}

}  // namespace

LinkedMember::LinkedMember(Group& local, ProcessLinks& links, const Watch& watch,
                           const std::vector<int>& processes, Meet meet, int channel)
    : local_(local),
      channel_(channel),
      meet_(meet),
      buckets_(
          circle_of(links, watch, processes, Lane::buckets, 2 * (channel * local.size() + local.rank()))),
      values_(circle_of(links, watch, processes, Lane::values, channel * local.size() + local.rank())),
      process_(values_.index),
      processes_(values_.size()),
      sums_(make_message_sums(buckets_)) {}

std::span<std::byte> LinkedMember::allocate(size_t bytes) {
  if (meet_ != Meet::memory) return local_.allocate(bytes);
  sums_ = make_message_sums(buckets_);
  regions_ = SharedRegions::make(values_, bytes);
  if (regions_ == nullptr) return local_.allocate(bytes);
  sums_ = make_shared_sums(*regions_);
  return regions_->own();
}

std::pair<size_t, size_t> LinkedMember::part(size_t count) const {
  const auto [begin, end] = local_.shard(count);
  const auto [from, to] = shard_of(end - begin, process_, processes_);
  return {begin + from, begin + to};
}

void LinkedMember::start(std::span<float> bucket, SumTo to) {
  local_.start_reduce_scatter(bucket);
  const auto [begin, end] = local_.shard(bucket.size());
  shards_.push_back({bucket.subspan(begin, end - begin), to});
}

size_t LinkedMember::poll() { return advance(local_.poll()); }

void LinkedMember::finish() {
  local_.finish();
  values_.watch.wait_until([this] { return advance(shards_.size()) == shards_.size(); },
                           regions_ == nullptr ? Waits::for_messages : Waits::for_memory);
  sums_->clear();
  shards_.clear();
  given_ = 0;
}

size_t LinkedMember::advance(size_t summed) {
  for (; given_ < summed; ++given_) sums_->add(shards_[given_].values, shards_[given_].to);
  return sums_->complete();
}

void LinkedMember::all_reduce(std::span<float> values) {
  local_.all_reduce(values);
  std::vector<float> rows(values.size() * static_cast<size_t>(processes_));
  const auto row = [&](int process) {
    return std::span(rows).subspan(static_cast<size_t>(process) * values.size(), values.size());
  };
  std::ranges::copy(values, row(process_).begin());
  gather(std::as_writable_bytes(std::span(rows)));
  std::ranges::copy(row(0), values.begin());
  for (int process = 1; process < processes_; ++process)
    std::ranges::transform(values, row(process), values.begin(), std::plus());
}

void LinkedMember::all_gather(std::span<float> rows) {
  const size_t block = rows.size() / static_cast<size_t>(processes_);
  local_.all_gather(rows.subspan(static_cast<size_t>(process_) * block, block));
  gather(std::as_writable_bytes(rows));
}

void LinkedMember::gather(std::span<std::byte> rows) {
  const size_t bytes = rows.size() / static_cast<size_t>(processes_);
  SharedWindows* shared = bytes <= kWindowRow ? grown(rows_, bytes) : nullptr;
  if (shared == nullptr) return gather_rows(values_, rows);
  shared->gather(rows);
}

void LinkedMember::share_parts(std::span<const std::span<float>> ranges) {
  size_t largest = 0;
  for (const std::span<float> range : ranges) largest = std::max(largest, range.size_bytes());
  SharedWindows* shared = grown(windows_, (largest / static_cast<size_t>(processes_)) + kLine);
  for (const std::span<float> range : ranges) {
    const auto [begin, end] = local_.shard(range.size());
    const std::span<float> shard = range.subspan(begin, end - begin);
    shared != nullptr ? share_in_windows(*shared, shard) : share_by_messages(shard);
  }
}

void LinkedMember::share_in_windows(Windows& windows, std::span<float> shard) const {
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

void LinkedMember::share_by_messages(std::span<float> shard) {
  const auto part_of = [&](int process) {
    const auto [begin, end] = shard_of(shard.size(), process, processes_);
    return std::as_writable_bytes(shard.subspan(begin, end - begin));
  };
  std::vector<std::unique_ptr<Transfer>> transfers;
  for (int process = 0; process < processes_; ++process) {
    if (process == process_) continue;
    const int rank = values_.ranks[static_cast<size_t>(process)];
    transfers.push_back(started(values_.links.to(rank, values_.lane, values_.tag, part_of(process_))));
    transfers.push_back(started(values_.links.from(rank, values_.lane, values_.tag, part_of(process))));
  }
  values_.watch.wait(transfers);
}

SharedWindows* LinkedMember::grown(std::unique_ptr<SharedWindows>& windows, size_t bytes) {
  if (meet_ == Meet::messages) return nullptr;
  if (windows == nullptr || windows->bytes() < bytes) {
    windows = SharedWindows::make(values_, std::max(bytes, kLeastWindow));
    if (windows == nullptr) meet_ = Meet::messages;  // for all processes
  }
  return windows.get();
}

Windows* LinkedMember::windows(size_t bytes) { return local_.size() > 1 ? nullptr : grown(windows_, bytes); }

void LinkedMember::exchange(Outgoing outgoing, Incoming incoming) {
  const int local = local_.size();
  const auto first = static_cast<size_t>(process_) * static_cast<size_t>(local);
  std::vector<std::unique_ptr<Transfer>> transfers;
  for (int r = 0; r < size(); ++r) {
    const auto at = static_cast<size_t>(r);
    if (r / local == process_) continue;
    const int rank = values_.ranks[static_cast<size_t>(r / local)];
    transfers.push_back(
        started(values_.links.from(rank, Lane::members, member_tag(r % local, local_.rank()), incoming[at])));
    transfers.push_back(
        started(values_.links.to(rank, Lane::members, member_tag(local_.rank(), r % local), outgoing[at])));
  }
  local_.exchange(outgoing.subspan(first, static_cast<size_t>(local)),
                  incoming.subspan(first, static_cast<size_t>(local)));
  values_.watch.wait(transfers);
}

}  // namespace telar
