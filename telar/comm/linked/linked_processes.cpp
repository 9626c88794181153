#include "telar/comm/linked/linked_processes.h"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <string>
#include <thread>
#include <utility>

#include "telar/comm/linked/collectives.h"
#include "telar/comm/linked/member.h"

namespace telar {

namespace {

constexpr int kTagOfNeighbours = 1;         // all processes have 0
constexpr size_t kSmall = size_t{4} << 10;  // bytes, of what passes through windows

}  // namespace

LinkedProcesses::LinkedProcesses(std::unique_ptr<ProcessLinks> links, Ending ending)
    : links_(std::move(links)), watch_(*links_, ending) {
  all_.resize(static_cast<size_t>(size()));
  std::iota(all_.begin(), all_.end(), 0);
  std::ranges::copy_if(all_, std::back_inserter(neighbours_),
                       [&](int other) { return links_->host(other) == links_->host(rank()); });
  if (ending == Ending::together) meet_neighbours();
}

void LinkedProcesses::meet_neighbours() {
  if (neighbours_.size() == 1) return;
  const Circle circle{*links_, watch_, neighbours_, index_on_this_host(), Lane::all, kTagOfNeighbours};
  mailboxes_ = SharedMailboxes::make(circle);
  if (neighbours_ == all_) windows_ = SharedWindows::make(circle, kSmall);
}

bool LinkedProcesses::in_windows(size_t bytes) const {
  return share_memory_ && windows_ != nullptr && bytes <= kSmall;
}

bool LinkedProcesses::have_box(int rank, int tag) const {
  return share_memory_ && mailboxes_ != nullptr && mailboxes_->serve(rank, tag);
}

std::unique_ptr<Transfer> LinkedProcesses::message_to(int rank, int tag, std::span<const std::byte> bytes) {
  return have_box(rank, tag) ? mailboxes_->to(rank, tag, bytes) : links_->to(rank, Lane::stages, tag, bytes);
}

std::unique_ptr<Transfer> LinkedProcesses::message_from(int rank, int tag, std::span<std::byte> bytes) {
  return have_box(rank, tag) ? mailboxes_->from(rank, tag, bytes)
                             : links_->from(rank, Lane::stages, tag, bytes);
}

int LinkedProcesses::on_this_host() const { return static_cast<int>(neighbours_.size()); }

int LinkedProcesses::index_on_this_host() const {
  return static_cast<int>(std::ranges::find(neighbours_, rank()) - neighbours_.begin());
}

bool LinkedProcesses::on_one_host(const std::vector<int>& ranks) const {
  return std::ranges::all_of(ranks, [&](int other) { return links_->host(other) == links_->host(rank()); });
}

void LinkedProcesses::broadcast(std::span<std::byte> bytes, int from) {
  if (!in_windows(bytes.size())) return spread(circle_of_all(*links_, watch_, Lane::all, 0), bytes, from);
  if (from == rank()) std::ranges::copy(bytes, windows_->own().begin());
  windows_->meet();
  if (from != rank()) std::ranges::copy(windows_->of(from).first(bytes.size()), bytes.begin());
}

void LinkedProcesses::gather_rows_of_all(std::span<std::byte> rows) {
  if (!in_windows(rows.size() / all_.size()))
    return gather_rows(circle_of_all(*links_, watch_, Lane::all, 0), rows);
  windows_->gather(rows);
}

int LinkedProcesses::lowest(int value) {
  std::vector<int> rows(all_.size(), value);
  gather_rows_of_all(std::as_writable_bytes(std::span(rows)));
  return std::ranges::min(rows);
}

void LinkedProcesses::lowest(std::span<float> values) {
  std::vector<float> rows(values.size() * all_.size());
  const auto row = [&](int process) {
    return std::span(rows).subspan(static_cast<size_t>(process) * values.size(), values.size());
  };
  std::ranges::copy(values, row(rank()).begin());
  gather_rows_of_all(std::as_writable_bytes(std::span(rows)));
  for (int process = 0; process < size(); ++process)
    std::ranges::transform(values, row(process), values.begin(),
                           [](float a, float b) { return std::min(a, b); });
}

void LinkedProcesses::sleep_until_all_come() {
  meet(*links_, watch_, Lane::all, 0, [] { std::this_thread::sleep_for(std::chrono::milliseconds(5)); });
}

std::unique_ptr<Group> LinkedProcesses::join(Group& local) {
  require_same(std::to_string(local.size()), "the number of its replicas");
  // The sums in shared memory are of two processes or more.
  const bool in_memory = share_memory_ && size() > 1 && on_this_host() == size();
  const auto meet = in_memory ? LinkedMember::Meet::memory : LinkedMember::Meet::messages;
  return std::make_unique<LinkedMember>(local, *links_, watch_, all_, meet, 0);
}

std::unique_ptr<Group> LinkedProcesses::join_some(Group& local, const std::vector<int>& ranks, int channel) {
  // Buckets are in the memory that all processes share, if any (ReplicaGroups); this group sums by messages.
  const auto meet =
      share_memory_ && on_one_host(ranks) ? LinkedMember::Meet::windows : LinkedMember::Meet::messages;
  return std::make_unique<LinkedMember>(local, *links_, watch_, ranks, meet, channel);
}

}  // namespace telar
