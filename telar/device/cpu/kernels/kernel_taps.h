#pragma once

#include "telar/device/cpu/lowering.h"
#include "telar/device/cpu/primitives.h"

namespace telar::cpu {

/// The taps of a convolution's kernel that ever meet the image. On a 1×1 image with padding 1 that is one of
/// nine: the others multiply padding only and their gradients are zeros. The convolution is then computed
/// with the smaller kernel.
struct KernelTaps {
  Shape all;               ///< [KH, KW]
  Shape first, count;      ///< of the taps that meet the image: a rectangle
  ConvolutionShape shape;  ///< of the convolution with these taps alone
  bool cropped() const { return count != all; }
};

/// Of images [H, W] and outputs [OH, OW]. All taps when fewer of them cannot express the convolution.
KernelTaps taps_that_meet(const Shape& image, const Shape& kernel, const Shape& output,
                          const ConvolutionShape& shape);

/// The taps that meet the image, of weights that lie in `whole`, in the layout `wanted`: part of that memory
/// where it lies so, else a copy.
RegionId cropped_weights(Lowering& lowering, RegionId whole, const KernelTaps& taps, const Desc& wanted);

/// Memory in the layout `made` for the gradients of the taps that meet the image; `spread_gradients`, after
/// they were computed, brings them into the gradients of all taps, `whole`, whose others become zeros.
RegionId cropped_gradients(Lowering& lowering, RegionId whole, const KernelTaps& taps, const Desc& made);
void spread_gradients(Lowering& lowering, RegionId cropped, RegionId whole, const KernelTaps& taps);

}  // namespace telar::cpu
