#pragma once

#include "telar/device/cuda/lowering.h"
#include "telar/device/kernel_table.h"

namespace telar::cuda {

using Kernels = KernelTable<Lowering>;

/// Adds the kernels of every file of the folder `kernels`: FILE.cpp defines `void register_FILE(Kernels&)`.
void register_all(Kernels& kernels);

}  // namespace telar::cuda
