#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "telar/comm/store/store_layout.h"

namespace telar {

/// What changes from push to push.
struct StoreScalars {
  float learning_rate = 0;
  float samples = 0;  ///< over which the pushed sum goes
  float step = 1;     ///< 1 for the first update of these floats
};

/// What a server does with a pushed gradient; handed in from above, where optimizers are known.
class StoreUpdate {
 public:
  virtual ~StoreUpdate() = default;

  /// The arenas that it works on.
  struct Memory {
    float* parameters = nullptr;
    std::vector<float*> states;  ///< in the order of slots()
  };

  /// Names of the optimizer state that it needs beside the parameters ("momentum"), one arena each, zero at first.
  virtual const std::vector<std::string>& slots() const = 0;
  /// Updates floats [begin, end) of the arenas. `gradient`: end - begin sums over scalars.samples samples. Several threads may update
  /// ranges that do not overlap at once. False when a gradient was NaN or infinite: the parameters are then non-finite.
  virtual bool apply(const Memory& memory, size_t begin, size_t end, const float* gradient,
                     const StoreScalars& scalars) const = 0;
};

/// Makes the update of a server from the description that the job's creator gave (opaque to comm), for the pieces that it holds.
/// Throws Error (user) for a description that it does not understand.
using StoreUpdateFactory =
    std::function<std::unique_ptr<StoreUpdate>(const std::string& description, const StoreLayout& layout)>;

}  // namespace telar
