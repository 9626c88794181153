#pragma once

#include <deque>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "telar/comm/group.h"
#include "telar/device/device.h"
#include "telar/runtime/shared_state.h"

namespace telar {

/// Where a replica's gradients lie, and how the group sums them.
///
/// A group sums in memory of its own, into which its members look: a processor's gradients lie there at once, and a GPU's when the group
/// sums on devices. Otherwise they pass through the host: the GPU copies each bucket into the group's memory as soon as it is
/// computed, and takes back the sums that this replica updates with. A worker alone and the stages of a pipeline have nothing to sum.
class GradientExchange {
 public:
  using Ranges = std::vector<std::pair<size_t, size_t>>;

  /// `group`: null for a worker alone. All of them must outlive it.
  GradientExchange(const Device& device, Group* group, SharedState& state);

  /// Where they lie, in the device's memory.
  std::byte* arena() const { return arena_; }
  /// Byte ranges of the arenas that this worker updates, and of whose gradients it holds the sum after finish().
  const Ranges& owned_ranges() const { return owned_; }

  /// The device was told to compute this bucket: its sum starts when it lies where the group sums.
  void start(size_t bucket);
  /// Makes progress without waiting. Nothing to do unless under_way().
  void poll();
  bool under_way() const { return !handed_over_.empty() || complete_ < started_; }
  /// Waits for all sums. (With a group that sums on devices, it is the device that waits.)
  void finish();

  /// Sums since count_anew(), and how many of them are known to be complete.
  size_t started() const { return started_; }
  size_t complete() const { return complete_; }
  void count_anew() { started_ = complete_ = 0; }

  /// Once every member has updated its ranges: waits for all, and where there are several memories each gets what was updated in the others.
  void share_parameters();

 private:
  /// A bucket on its way to the group's memory.
  struct HandedOver {
    size_t begin;
    size_t end;
    std::unique_ptr<PendingCopy> copy;
  };

  Ranges find_owned_ranges() const;
  void start_sum(size_t begin, size_t end);
  void start_sums_that_arrived();

  const Device& device_;
  Group* group_;
  SharedState& state_;
  const StateMemory& home_;
  std::unique_ptr<Memory> own_;  ///< of a worker alone, or where gradients pass through the host
  std::span<std::byte> summed_;  ///< the group's memory
  std::unique_ptr<PinnedHost> pinned_;
  std::byte* arena_ = nullptr;
  Ranges owned_;
  std::deque<HandedOver> handed_over_;
  size_t started_ = 0;
  size_t complete_ = 0;
};

}  // namespace telar
