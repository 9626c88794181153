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
  bool recorded;  ///< else none could be, and it is that whose first call was the fastest
  bool operator==(const Fastest&) const = default;
};

/// Which of so many candidates is fastest on this GPU, each measured on its own as a step plays it: recorded,
/// without the host's work for each kernel. `enqueue` tells the stream to do a candidate's work once and says
/// whether it can; one that cannot is left out, and one that cannot be recorded where another can. One whose
/// first call takes three times that of the best so far is not looked at further. None when none can. Throws
/// what Gpu::wait throws.
std::optional<Fastest> fastest(const Gpu& gpu, size_t candidates,
                               const std::function<bool(size_t candidate)>& enqueue);

/// Algorithms that compute the same thing, the likeliest first, of which one is chosen and then kept alone:
/// the one that was chosen on such a GPU before, or else the fastest.
template <typename Algorithm>
class Candidates {
 public:
  /// `what` is computed: in words, all that the choice depends on, beginning with the library's name.
  explicit Candidates(std::string what) : what_(std::move(what)) {}

  const std::string& what() const { return what_; }
  /// `name` tells it from the others; `workspace`: bytes that it may use beside its operands.
  void add(Algorithm algorithm, std::string name, size_t workspace) {
    algorithms_.push_back(std::move(algorithm));
    names_.push_back(std::move(name));
    workspace_ = std::max(workspace_, workspace);
  }
  bool empty() const { return algorithms_.empty(); }
  size_t size() const { return algorithms_.size(); }
  /// Bytes that are enough for each.
  size_t workspace() const { return workspace_; }

  /// `enqueue` as above. Throws Error (run) when none can be run: "none of 8 algorithms can compute {what} on
  /// cuda:0".
  void choose(Gpu& gpu, const std::function<bool(const Algorithm& algorithm)>& enqueue) {
    size_t chosen = known_in(gpu.choices());
    if (chosen == size()) {
      const auto best =
          fastest(gpu, size(), [&](size_t candidate) { return enqueue(algorithms_[candidate]); });
      if (!best) throw run_error("none of {} algorithms can compute {} on {}", size(), what_, gpu.name());
      chosen = best->candidate;
      if (best->recorded) {  // else another time it may be another
        gpu.choices().keep(what_, names_[chosen]);
        chosen = known_in(gpu.choices());
      }
    }
    std::swap(algorithms_.front(), algorithms_[chosen]);
    algorithms_.erase(algorithms_.begin() + 1, algorithms_.end());
    names_ = {names_[chosen]};
  }
  /// Of choose(); before it, the likeliest.
  const Algorithm& chosen() const { return algorithms_.front(); }

 private:
  /// Which of these was chosen before; size() when none was.
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
