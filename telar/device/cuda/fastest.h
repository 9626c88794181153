#pragma once

#include <cstddef>
#include <functional>
#include <optional>

#include "telar/device/cuda/gpu.h"

namespace telar::cuda {

/// Which of so many candidates is fastest on this GPU, each measured on its own between two events of the stream. `enqueue` tells the stream to
/// do a candidate's work once and says whether it can; one that cannot is left out. None when none can.
std::optional<size_t> fastest(const Gpu& gpu, size_t candidates,
                              const std::function<bool(size_t candidate)>& enqueue);

}  // namespace telar::cuda
