#pragma once

#include "telar/device/cpu/lowering.h"
#include "telar/device/cpu/primitives.h"

namespace telar::cpu {

/// The kernel taps of a convolution that ever touch the image. On a 1×1 image with padding 1, that is one of
/// nine. The others multiply padding only, and their gradients are zero. The convolution is then computed
/// with the smaller kernel.
struct KernelTaps {
  Shape all;               ///< [KH, KW]
  Shape first, count;      ///< the taps that touch the image: a rectangle
  ConvolutionShape shape;  ///< the convolution with these taps only
  bool cropped() const { return count != all; }
};

/// For images [H, W] and outputs [OH, OW]. Returns all taps when a smaller kernel cannot express the
/// convolution.
KernelTaps taps_that_meet(const Shape& image, const Shape& kernel, const Shape& output,
                          const ConvolutionShape& shape);

/// The taps that touch the image, from the weights in `whole`, in the layout `wanted`. A part of that memory
/// if it has this layout, otherwise a copy.
RegionId cropped_weights(Lowering& lowering, RegionId whole, const KernelTaps& taps, const Desc& wanted);

/// Memory in the layout `made` for the gradients of the taps that touch the image. When they are computed,
/// spread_gradients writes them to the gradients of all taps, `whole`; the other gradients become zero.
RegionId cropped_gradients(Lowering& lowering, RegionId whole, const KernelTaps& taps, const Desc& made);
void spread_gradients(Lowering& lowering, RegionId cropped, RegionId whole, const KernelTaps& taps);

}  // namespace telar::cpu
