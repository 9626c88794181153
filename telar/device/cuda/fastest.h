#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "telar/core/error.h"
#include "telar/device/cuda/gpu.h"

namespace telar::cuda {

struct Fastest {
  size_t candidate;
  bool recorded;  ///< false: none could be recorded, and this one's first call was the fastest
  bool operator==(const Fastest&) const = default;
};

/// Finds the fastest of `candidates` algorithms on this GPU. Each is measured alone, in a recording, as a
/// step plays it: without the host's time for each kernel. `enqueue` puts one execution of a candidate on the
/// stream and returns whether that is possible. A candidate that cannot run is skipped, and so is one that
/// cannot be recorded when another can. So is one whose first call takes three times as long as the best
/// one's. None when no candidate can run. Throws what Gpu::wait throws.
std::optional<Fastest> fastest(const Gpu& gpu, size_t candidates,
                               const std::function<bool(size_t candidate)>& enqueue);

/// Algorithms that compute the same result, the most promising first. One of them is chosen and the rest are
/// dropped: the one chosen on such a GPU before, or else the fastest.
template <typename Algorithm>
class Candidates {
 public:
  /// `what` describes the computation in words: everything that the choice depends on, the library's name
  /// first.
  explicit Candidates(std::string what) : what_(std::move(what)) {}

  const std::string& what() const { return what_; }
  /// `name` identifies the algorithm; `workspace` is the memory in bytes that it may use besides its
  /// operands.
  void add(Algorithm algorithm, std::string name, size_t workspace) {
    algorithms_.push_back(std::move(algorithm));
    names_.push_back(std::move(name));
    workspace_ = std::max(workspace_, workspace);
  }
  bool empty() const { return algorithms_.empty(); }
  size_t size() const { return algorithms_.size(); }
  /// Bytes that suffice for every algorithm.
  size_t workspace() const { return workspace_; }

  /// `enqueue` as for fastest(). Throws Error (run) when no algorithm can run: "none of 8 algorithms can
  /// compute {what} on cuda:0".
  void choose(Gpu& gpu, const std::function<bool(const Algorithm& algorithm)>& enqueue) {
    size_t chosen = known_in(gpu.choices());
    if (chosen == size()) {
      const auto best =
          fastest(gpu, size(), [&](size_t candidate) { return enqueue(algorithms_[candidate]); });
      if (!best) throw run_error("none of {} algorithms can compute {} on {}", size(), what_, gpu.name());
      chosen = best->candidate;
      if (best->recorded) {  // otherwise another run may choose another one
        gpu.choices().keep(what_, names_[chosen]);
        chosen = known_in(gpu.choices());
      }
    }
    std::swap(algorithms_.front(), algorithms_[chosen]);
    algorithms_.erase(algorithms_.begin() + 1, algorithms_.end());
    names_ = {names_[chosen]};
  }
  /// The result of choose(); before it, the most promising algorithm.
  const Algorithm& chosen() const { return algorithms_.front(); }

 private:
  /// The index of the algorithm that was chosen before; size() when there is none.
  size_t known_in(const Choices& choices) const {
    for (const std::string& name : choices.known(what_)) {
      const auto found = std::find(names_.begin(), names_.end(), name);
      if (found != names_.end()) return static_cast<size_t>(found - names_.begin());
    }
    return size();
  }

  std::string what_;
  std::vector<Algorithm> algorithms_;
  std::vector<std::string> names_;
  size_t workspace_ = 0;
};

}  // namespace telar::cuda
