#pragma once

#include <array>
#include <memory>
#include <vector>

#include "telar/device/cuda/cudnn_graph.h"
#include "telar/device/cuda/fastest.h"
#include "telar/device/cuda/lowering.h"

namespace telar::cuda {

/// Which of a convolution's three tensors is computed from the other two: y from x and w, or a gradient.
enum class Direction : uint8_t { forward, backward_data, backward_weights };

/// One way to ask cuDNN for a convolution. The tensors stand for their gradients where those are meant.
struct ConvolutionForm {
  Direction direction = Direction::forward;
  TensorType x;  ///< [N, C, H, W]
  TensorType w;  ///< [O, C / groups, KH, KW]
  TensorType y;  ///< [N, O, H', W']
  Layout layout = Layout::channels_last;
  bool bias = false;  ///< forward: one f32 for each channel is added
  bool relu = false;  ///< forward: then negative values become 0
};

/// A convolution in one form, with cuDNN's plans for it; there may be none. Sums are in f32.
class Convolution {
 public:
  /// `what`: all of it in words. `attributes`: stride, padding and dilation. `tf32`: whether f32 operands may be rounded to TF32.
  Convolution(Gpu& gpu, const std::string& what, const ConvolutionForm& form, const Attributes& attributes,
              bool tf32);

  const ConvolutionForm& form() const { return form_; }
  bool possible() const { return !plans_.empty(); }
  size_t workspace() const { return plans_.workspace(); }

  // Pointers: what it reads, in this order: x, w, bias; or dy, w; or x, dy; then the result, then the workspace.
  void choose(const Pointers& p);  ///< once: layers that are alike share a convolution
  void run(const Pointers& p) const;

 private:
  cudnnStatus_t enqueue(const Plan& plan, const Pointers& p) const;

  Gpu& gpu_;
  cudnnHandle_t handle_;
  ConvolutionForm form_;
  std::vector<int64_t> uids_;  ///< in the order of the pointers
  Candidates<Plan> plans_;
  bool chosen_ = false;
};

/// The layouts to ask cuDNN for, the better first; where it has nothing for that it may have for the other. Its engines on tensor cores compute with
/// channels last. Those in f32 compute plain: with channels last they reorder what they read and write, within their workspaces.
std::array<Layout, 2> convolution_layouts(const Lowering& lowering, DType dtype);

/// The first of these forms of a node for which cuDNN has a plan. Throws Error (run) naming the convolution when it has none.
std::shared_ptr<Convolution> find_convolution(const Lowering& lowering, const Node& node,
                                              const std::vector<ConvolutionForm>& forms);

}  // namespace telar::cuda
