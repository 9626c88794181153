#include "telar/comm/linked/shared_regions.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <new>

namespace telar {

namespace {

constexpr size_t kHead = 4096;  // a page, so the memory begins at a page boundary

struct Head {
  std::array<uint64_t, 2> token;
  SharedRegions::Counts counts;
};
static_assert(sizeof(Head) <= kHead);
static_assert(std::atomic<uint64_t>::is_always_lock_free);

/// How to open a process's memory, and a token to verify it: in another PID namespace, the same number may
/// belong to another process.
struct RegionAddress {
  std::array<uint64_t, 2> token{};
  int64_t process = 0;
  int64_t file = -1;
};

std::byte* map(int file, size_t bytes) {
  void* memory = mmap(nullptr, kHead + bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  return memory == MAP_FAILED ? nullptr : static_cast<std::byte*>(memory);
}

Head* head_of(std::byte* region) { return std::launder(reinterpret_cast<Head*>(region)); }

bool random(std::array<uint64_t, 2>& token) { return getentropy(token.data(), sizeof token) == 0; }

bool true_for_all(const Circle& circle, bool value) {
  return !std::ranges::count(gathered<char>(circle, value ? 1 : 0), 0);
}

}  // namespace

std::unique_ptr<SharedRegions> SharedRegions::make(const Circle& circle, size_t bytes) {
  std::unique_ptr<SharedRegions> regions(
      new SharedRegions(circle.index, static_cast<size_t>(circle.size()), bytes));
  const int file = memfd_create("telar gradients", MFD_CLOEXEC);
  const bool opened = regions->open(circle, file);
  // all have opened what they need; the descriptor may be closed
  const bool all = true_for_all(circle, opened);
  if (file >= 0) close(file);
  return all ? std::move(regions) : nullptr;
}

bool SharedRegions::open(const Circle& circle, int own_file) {
  RegionAddress mine;
  std::byte*& own_map = maps_[static_cast<size_t>(rank_)];
  if (own_file >= 0 && ftruncate(own_file, static_cast<off_t>(kHead + bytes_)) == 0 && random(mine.token)) {
    own_map = map(own_file, bytes_);
  }
  if (own_map != nullptr) {
    new (own_map) Head{mine.token, {}};
    mine.process = getpid();
    mine.file = own_file;
  }
  const std::vector<RegionAddress> addresses = gathered(circle, mine);
  for (size_t other = 0; other < maps_.size(); ++other) {
    const RegionAddress& there = addresses[other];
    if (there.file < 0) return false;
    if (static_cast<int>(other) == rank_) continue;
    const int file =
        ::open(fmt::format("/proc/{}/fd/{}", there.process, there.file).c_str(), O_RDWR | O_CLOEXEC);
    if (file < 0) return false;
    const bool large_enough = lseek(file, 0, SEEK_END) == static_cast<off_t>(kHead + bytes_);
    maps_[other] = large_enough ? map(file, bytes_) : nullptr;
    close(file);
    if (maps_[other] == nullptr || head_of(maps_[other])->token != there.token) return false;
  }
  return true;
}

SharedRegions::~SharedRegions() {
  for (std::byte* region : maps_) {
    if (region != nullptr) munmap(region, kHead + bytes_);
  }
}

std::span<std::byte> SharedRegions::of(int process) const {
  return {maps_[static_cast<size_t>(process)] + kHead, bytes_};
}

SharedRegions::Counts& SharedRegions::counts(int process) const {
  return head_of(maps_[static_cast<size_t>(process)])->counts;
}

}  // namespace telar
