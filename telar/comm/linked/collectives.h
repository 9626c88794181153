#pragma once

#include <functional>
#include <span>
#include <vector>

#include "telar/comm/linked/links.h"
#include "telar/comm/linked/watch.h"

namespace telar {

/// Some of the processes, which do something together: all of them call the same operations in the same
/// order, and no other processes use the lane and tag between them at the same time.
struct Circle {
  ProcessLinks& links;
  const Watch& watch;
  std::vector<int> ranks;  ///< ascending
  int index;               ///< of this process in it
  Lane lane;
  int tag;

  int size() const { return static_cast<int>(ranks.size()); }
};

/// All processes.
Circle circle_of_all(ProcessLinks& links, const Watch& watch, Lane lane, int tag);

/// `rows` holds as many rows of equal length as there are processes. This one has filled its own; the call
/// fills the others, in log2(N) rounds (Bruck et al., 1997): in each, a process passes on all that it has.
/// `nap`: called between looks while it waits, if given. Waits.
void gather_rows(const Circle& circle, std::span<std::byte> rows, const std::function<void()>& nap = {});

/// The rows of one value.
template <typename T>
std::vector<T> gathered(const Circle& circle, const T& own) {
  std::vector<T> rows(circle.ranks.size(), own);
  gather_rows(circle, std::as_writable_bytes(std::span(rows)));
  return rows;
}

/// Replaces the bytes by those of process `from` of the circle, along a tree. Waits.
void spread(const Circle& circle, std::span<std::byte> bytes, int from);

/// Waits until all processes have called it. It calls `nap` between looks.
void meet(ProcessLinks& links, const Watch& watch, Lane lane, int tag, const std::function<void()>& nap);

}  // namespace telar
