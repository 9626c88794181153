#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "telar/comm/store/store_layout.h"

namespace telar {

/// Values that change from push to push.
struct StoreScalars {
  float learning_rate = 0;
  float samples = 0;  ///< number of samples in the pushed sum
  float step = 1;     ///< 1 for the first update of these floats
};

/// Applies pushed gradients on a server. Implemented by a higher floor, which knows the optimizers.
class StoreUpdate {
 public:
  virtual ~StoreUpdate() = default;

  /// The arenas that an update works on.
  struct Memory {
    float* parameters = nullptr;
    std::vector<float*> states;  ///< in the order of slots()
  };

  /// Names of the optimizer state that the update needs beside the parameters ("momentum"). Each has one
  /// arena, initially zero.
  virtual const std::vector<std::string>& slots() const = 0;
  /// Updates floats [begin, end) of the arenas. `gradient`: end - begin sums over scalars.samples samples.
  /// Several threads may update disjoint ranges at once. Returns false if a gradient was NaN or infinite; the
  /// parameters are then non-finite.
  virtual bool apply(const Memory& memory, size_t begin, size_t end, const float* gradient,
                     const StoreScalars& scalars) const = 0;
  /// How the update that `description` asks for differs from this one, as the end of a sentence; empty if it
  /// does not, although the text is another one. Throws Error (user) if the description is not understood.
  virtual std::string difference(const std::string& /*description*/) const {
    return "it is described otherwise";
  }
};

/// Makes a server's update for the pieces that it holds, from the description given by the job's creator
/// (opaque to comm). Throws Error (user) if the description is not understood.
using StoreUpdateFactory =
    std::function<std::unique_ptr<StoreUpdate>(const std::string& description, const StoreLayout& layout)>;

}  // namespace telar
