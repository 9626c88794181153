#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "telar/comm/group.h"
#include "telar/device/device.h"
#include "telar/graph/program.h"
#include "telar/runtime/shared_state.h"

namespace telar {

/// Where a replica's gradients are stored, and how groups of workers sum them.
///
/// A group sums in its own memory, which its members can read. Gradients of a CPU are computed directly in
/// that memory, and so are those of a GPU when the group sums on devices. Otherwise gradients pass through
/// the host: the GPU copies each bucket into the group's memory as soon as it is computed, and copies back
/// the sums with which this replica updates. A single worker and the stages of a pipeline have nothing to
/// sum.
///
/// Where each worker updates a share of its own (Update::of_all), a bucket is summed only to these shares.
///
/// Workers with a memory of their own (StateHome::of_worker) have all gradients in the memory of the group of
/// all workers. Each updates all that it keeps, so after a sum it has the whole of it, not a shard.
class GradientExchange {
 public:
  using Ranges = std::vector<std::pair<size_t, size_t>>;
  /// The worker's member of a group, by name; null for a single worker.
  using FindGroup = std::function<Group*(const std::string&)>;

  /// All references must outlive this object.
  GradientExchange(const Device& device, const Program& program, const FindGroup& group, SharedState& state,
                   const StateMemory& home);

  /// The gradients, in the device's memory.
  std::byte* arena() const { return arena_; }
  /// Byte ranges of the arenas that this worker updates. It holds the sums of their gradients after finish().
  const Ranges& owned_ranges() const { return owned_; }

  /// Call after queueing the computation of this bucket on the device. The sum starts when the bucket is in
  /// the group's memory.
  void start(size_t bucket);
  /// Starts the sums of all buckets of which the worker has the gradients.
  void start_all();
  /// Advances the sums without waiting. Does nothing unless under_way().
  void poll();
  bool under_way() const { return !handed_over_.empty() || complete_ < started_; }
  /// Waits for all sums. With a group that sums on devices, only the device waits.
  void finish();

  /// Sums started since count_anew(), and how many of them are known to be complete.
  size_t started() const { return started_; }
  size_t complete() const { return complete_; }
  void count_anew() { started_ = complete_ = 0; }

  /// Call when this member has updated its ranges. Waits for all members; if there are several memories,
  /// copies the ranges updated in the others to each.
  void share_parameters();

 private:
  /// A bucket being copied to the group's memory.
  struct HandedOver {
    size_t bucket;
    std::unique_ptr<PendingCopy> copy;
  };

  Ranges find_owned_ranges() const;
  /// Lets processes exchange the parameters that each alone has updated.
  void share_parts();
  bool apart() const { return home_.update == Update::whole; }
  bool updates_parts() const { return home_.update == Update::of_all; }
  bool has(size_t bucket) const { return home_.buckets[bucket].first < home_.buckets[bucket].second; }
  std::span<float> summed_floats(size_t bucket) const;
  void start_sum(size_t bucket);
  void start_sums_that_arrived();

  const Device& device_;
  Group* group_;  ///< of all workers
  std::vector<Group*> of_bucket_;
  std::vector<Group*> groups_;  ///< each once
  SharedState& state_;
  const StateMemory& home_;
  std::unique_ptr<Memory> own_;  ///< for a single worker, or if gradients pass through the host
  std::span<std::byte> summed_;  ///< the group's memory
  std::unique_ptr<PinnedHost> pinned_;
  std::byte* arena_ = nullptr;
  Ranges owned_;
  std::deque<HandedOver> handed_over_;
  size_t started_ = 0;
  size_t complete_ = 0;
};

}  // namespace telar
