#pragma once

#include <memory>

#include "telar/comm/group.h"
#include "telar/comm/linked/shared_regions.h"

namespace telar {

/// Windows of processes of one host, in memory that all of them see. A process writes one half of its memory
/// while others may still read the other half.
class SharedWindows final : public Windows {
 public:
  /// Null, in all processes, if they cannot see each other's memory. Every process calls it. Waits.
  static std::unique_ptr<SharedWindows> make(const Circle& circle, size_t bytes);

  size_t bytes() const { return bytes_; }
  std::span<std::byte> own() override { return half(regions_->rank(), turn_); }
  void meet() override;
  std::span<const std::byte> of(int member) const override { return half(member, 1 - turn_); }
  /// `rows` holds a row of at most bytes() for each process. This one has filled its own; the call fills the
  /// others. Waits.
  void gather(std::span<std::byte> rows);

 private:
  SharedWindows(std::unique_ptr<SharedRegions> regions, const Watch& watch, size_t bytes)
      : regions_(std::move(regions)), watch_(watch), bytes_(bytes) {}
  std::span<std::byte> half(int process, size_t turn) const {
    return regions_->of(process).subspan(turn * bytes_, bytes_);
  }

  std::unique_ptr<SharedRegions> regions_;
  const Watch& watch_;
  size_t bytes_;
  size_t turn_ = 0;
  uint64_t met_ = 0;
};

}  // namespace telar
