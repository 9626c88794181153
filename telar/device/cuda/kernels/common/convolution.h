#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>

#include "telar/device/cuda/cudnn_graph.h"
#include "telar/device/cuda/fastest.h"
#include "telar/device/cuda/lowering.h"

namespace telar::cuda {

/// Which of the three tensors is computed from the other two: y from x and w, or a gradient.
enum class Direction : uint8_t { forward, backward_data, backward_weights };

/// A convolution, with bias and ReLU after it. In backward directions, the computed tensor and y stand for
/// gradients.
struct ConvolutionForm {
  Direction direction = Direction::forward;
  TensorType x;  ///< [N, C, H, W]
  TensorType w;  ///< [O, C / groups, KH, KW]
  TensorType y;  ///< [N, O, H', W']
  Layout layout = Layout::channels_last;
  std::optional<DType> bias = {};  ///< forward: a bias of this type is added to each channel
  bool relu = false;               ///< forward: negative values then become 0
};

/// The memory that a convolution reads and writes.
struct ConvolutionMemory {
  void* x = nullptr;
  void* w = nullptr;
  void* y = nullptr;
  void* bias = nullptr;
  void* workspace = nullptr;  ///< Convolution::workspace() bytes, aligned to kMemoryAlignment
};

/// The ways to compute a convolution; there may be none, and the fastest one is chosen. Sums are in f32.
/// cuDNN computes everything, or less with engines that support only other graphs: with a bias rounded to y's
/// type; without bias and ReLU; with weight gradients in the gradients' type. Loops of ours do the rest.
class Convolution {
 public:
  /// `what` describes the convolution in words; a bias is f32. `attributes`: stride, padding and dilation.
  /// `tf32`: whether f32 operands may be rounded to TF32.
  Convolution(Gpu& gpu, const std::string& what, const ConvolutionForm& wanted, const Attributes& attributes,
              bool tf32);

  Layout layout() const { return wanted_.layout; }
  bool possible() const { return !ways_.empty(); }
  size_t workspace() const { return ways_.workspace(); }

  void choose(const ConvolutionMemory& memory);  ///< measures once: equal layers share a convolution
  void run(const ConvolutionMemory& memory) const;

 private:
  /// The form that cuDNN computes, and the plan for it.
  struct Way {
    ConvolutionForm form;
    Plan plan;
  };
  void find_ways(const Attributes& attributes, bool tf32);
  /// Adds the plans that the search finds; returns whether there are any.
  bool add(const ConvolutionForm& form, PlanSearch& search);
  /// Bytes of the workspace that pass results from cuDNN to the loops.
  size_t scratch_of(const ConvolutionForm& form) const;
  cudnnStatus_t enqueue(const Way& way, const ConvolutionMemory& memory) const;
  void finish(const ConvolutionForm& form, const ConvolutionMemory& memory) const;

  Gpu& gpu_;
  cudnnHandle_t handle_;
  ConvolutionForm wanted_;
  Candidates<Way> ways_;
  bool chosen_ = false;
};

/// The layouts to try with cuDNN, the better one first; cuDNN may support only the other one. Engines on
/// tensor cores compute with channels last. Engines in f32 compute in plain layout; for channels last they
/// reorder their operands and results in the workspace.
std::array<Layout, 2> convolution_layouts(const Lowering& lowering, DType dtype);

/// The convolution of a node, in the better layout for which cuDNN has a plan. `wanted` gives everything but
/// the layout. Throws Error (run) naming the convolution when there is no plan.
std::shared_ptr<Convolution> find_convolution(const Lowering& lowering, const Node& node,
                                              ConvolutionForm wanted);

}  // namespace telar::cuda
