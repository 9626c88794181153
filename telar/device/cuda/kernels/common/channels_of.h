#pragma once

#include "telar/device/cuda/loops/channels.h"
#include "telar/device/cuda/lowering.h"

namespace telar::cuda {

/// How a value [N, C, H, W] or [N, C] is stored.
Channels channels_of(const Lowering& lowering, ValueId value);

}  // namespace telar::cuda
