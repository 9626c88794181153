#pragma once

#include "telar/device/cpu/primitives.h"

namespace telar::cpu {

/// A convolution in oneDNN's form: x [N, C, H, W], w [O, C, KH, KW] (or with groups as the first axis), y [N,
/// O, OH, OW].
struct ConvolutionTensors {
  DType dtype;
  Shape x, w, y;
};

/// Whether Winograd's F(4×4, 3×3) (Lavin and Gray, Fast Algorithms for Convolutional Neural Networks, 2016)
/// supports the convolution and its gradients and is likely faster. That holds for 3×3 kernels with stride 1
/// in f32, with enough tiles to amortise the weight transformation, and images that fill the tiles. Throws
/// Error (user) if oneDNN has no Winograd at all: without AVX-512, or from version 3 on.
bool winograd_pays(const ConvolutionTensors& tensors, const ConvolutionShape& shape);

}  // namespace telar::cpu
