#include "telar/comm/linked/shared_windows.h"

#include <algorithm>

namespace telar {

std::unique_ptr<SharedWindows> SharedWindows::make(const Circle& circle, size_t bytes) {
  auto regions = SharedRegions::make(circle, 2 * bytes);
  if (regions == nullptr) return nullptr;
  return std::unique_ptr<SharedWindows>(new SharedWindows(std::move(regions), circle.watch, bytes));
}

void SharedWindows::meet() {
  regions_->counts(regions_->rank()).arrived.store(++met_, std::memory_order_release);
  watch_.wait_until(
      [this] {
        for (int process = 0; process < regions_->size(); ++process)
          if (regions_->counts(process).arrived.load(std::memory_order_acquire) < met_) return false;
        return true;
      },
      Waits::for_memory);
  turn_ = 1 - turn_;
}

void SharedWindows::gather(std::span<std::byte> rows) {
  const int own_row = regions_->rank();
  const size_t size = rows.size() / static_cast<size_t>(regions_->size());
  const auto row = [&](int process) { return rows.subspan(static_cast<size_t>(process) * size, size); };
  std::ranges::copy(row(own_row), own().begin());
  meet();
  for (int process = 0; process < regions_->size(); ++process)
    if (process != own_row) std::ranges::copy(of(process).first(size), row(process).begin());
}

}  // namespace telar
