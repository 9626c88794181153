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

/// Which of so many candidates is fastest on this GPU, each measured on its own between two events of the stream. `enqueue` tells the stream to
/// do a candidate's work once and says whether it can; one that cannot is left out. None when none can.
std::optional<size_t> fastest(const Gpu& gpu, size_t candidates,
                              const std::function<bool(size_t candidate)>& enqueue);

/// Algorithms that compute the same thing, the likeliest first, of which one is chosen by measuring and then kept alone.
template <typename Algorithm>
class Candidates {
 public:
  /// `workspace`: bytes that it may use beside its operands.
  void add(Algorithm algorithm, size_t workspace) {
    algorithms_.push_back(std::move(algorithm));
    workspace_ = std::max(workspace_, workspace);
  }
  bool empty() const { return algorithms_.empty(); }
  size_t size() const { return algorithms_.size(); }
  /// Bytes that are enough for each.
  size_t workspace() const { return workspace_; }

  /// Keeps the fastest; `enqueue` as above. Throws Error (run) when none can be run: "no algorithm of {library} can compute {what} on cuda:0".
  void choose(const Gpu& gpu, const std::string& library, const std::string& what,
              const std::function<bool(const Algorithm& algorithm)>& enqueue) {
    const auto best =
        fastest(gpu, algorithms_.size(), [&](size_t candidate) { return enqueue(algorithms_[candidate]); });
    if (!best) throw run_error("no algorithm of {} can compute {} on {}", library, what, gpu.name());
    std::swap(algorithms_.front(), algorithms_[*best]);
    algorithms_.erase(algorithms_.begin() + 1, algorithms_.end());
  }
  /// Of choose(); before it, the likeliest.
  const Algorithm& chosen() const { return algorithms_.front(); }

 private:
  std::vector<Algorithm> algorithms_;
  size_t workspace_ = 0;
};

}  // namespace telar::cuda
