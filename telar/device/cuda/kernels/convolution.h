#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>

#include "telar/device/cuda/cudnn_graph.h"
#include "telar/device/cuda/fastest.h"
#include "telar/device/cuda/lowering.h"

namespace telar::cuda {

/// Which of a convolution's three tensors is computed from the other two: y from x and w, or a gradient.
enum class Direction : uint8_t { forward, backward_data, backward_weights };

/// A convolution, and what comes behind it. The tensors stand for their gradients where those are meant.
struct ConvolutionForm {
  Direction direction = Direction::forward;
  TensorType x;  ///< [N, C, H, W]
  TensorType w;  ///< [O, C / groups, KH, KW]
  TensorType y;  ///< [N, O, H', W']
  Layout layout = Layout::channels_last;
  std::optional<DType> bias = {};  ///< forward: one of this type for each channel is added
  bool relu = false;               ///< forward: then negative values become 0
};

/// The memory of a convolution: what it reads, and what it writes.
struct ConvolutionMemory {
  void* x = nullptr;
  void* w = nullptr;
  void* y = nullptr;
  void* bias = nullptr;
  void* workspace = nullptr;  ///< Convolution::workspace() bytes, aligned to kMemoryAlignment
};

/// The ways to compute a convolution, of which the fastest is chosen; there may be none. Sums are in f32.
/// cuDNN computes all that is wanted, or, by engines that are for other graphs alone, less: with a bias
/// rounded to y's type; without bias and ReLU; with gradients of weights in the gradients' type. Loops of
/// ours do the rest.
class Convolution {
 public:
  /// `what`: all of it in words; a bias is f32. `attributes`: stride, padding and dilation. `tf32`: whether
  /// f32 operands may be rounded to TF32.
  Convolution(Gpu& gpu, const std::string& what, const ConvolutionForm& wanted, const Attributes& attributes,
              bool tf32);

  Layout layout() const { return wanted_.layout; }
  bool possible() const { return !ways_.empty(); }
  size_t workspace() const { return ways_.workspace(); }

  void choose(const ConvolutionMemory& memory);  ///< once: layers that are alike share a convolution
  void run(const ConvolutionMemory& memory) const;

 private:
  /// What cuDNN computes, and how.
  struct Way {
    ConvolutionForm form;
    Plan plan;
  };
  void find_ways(const Attributes& attributes, bool tf32);
  void add(const ConvolutionForm& form, Plan plan);
  /// What of the workspace lies between cuDNN and the loops.
  size_t scratch_of(const ConvolutionForm& form) const;
  cudnnStatus_t enqueue(const Way& way, const ConvolutionMemory& memory) const;
  void finish(const ConvolutionForm& form, const ConvolutionMemory& memory) const;

  Gpu& gpu_;
  cudnnHandle_t handle_;
  ConvolutionForm wanted_;
  Candidates<Way> ways_;
  bool chosen_ = false;
};

/// The layouts to ask cuDNN for, the better first; where it has nothing for that it may have for the other.
/// Its engines on tensor cores compute with channels last. Those in f32 compute plain: with channels last
/// they reorder what they read and write, within their workspaces.
std::array<Layout, 2> convolution_layouts(const Lowering& lowering, DType dtype);

/// The convolution of a node in the better layout for which cuDNN has a plan; `wanted` says all but the
/// layout. Throws Error (run) naming the convolution when it has none.
std::shared_ptr<Convolution> find_convolution(const Lowering& lowering, const Node& node,
                                              ConvolutionForm wanted);

}  // namespace telar::cuda
