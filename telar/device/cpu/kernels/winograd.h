#pragma once

#include "telar/device/cpu/primitives.h"

namespace telar::cpu {

/// A convolution as oneDNN sees it: x [N, C, H, W], w [O, C, KH, KW] (or with groups in front), y [N, O, OH,
/// OW].
struct ConvolutionTensors {
  DType dtype;
  Shape x, w, y;
};

/// Whether Winograd's F(4×4, 3×3) (Lavin and Gray, Fast Algorithms for Convolutional Neural Networks, 2016)
/// can compute the convolution and its gradients and is worth it: 3×3 kernels at stride 1 in f32, with tiles
/// enough for the transformation of the weights, and images that fill them. Throws Error (user) where oneDNN
/// has no Winograd at all: without AVX-512, and from its version 3 on.
bool winograd_pays(const ConvolutionTensors& tensors, const ConvolutionShape& shape);

}  // namespace telar::cpu
