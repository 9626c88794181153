#pragma once

#include <string>

namespace telar::cpu {

/// Why `training.convolution: winograd` is not possible on this machine: without AVX-512, or from oneDNN 3
/// on. Empty if it is possible.
std::string winograd_missing();

/// Why this machine's CPU cannot compute in bf16: oneDNN has such products and convolutions only for AVX-512.
/// Empty if it can.
std::string bf16_missing();

}  // namespace telar::cpu
