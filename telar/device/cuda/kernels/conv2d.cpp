#include <algorithm>
#include <limits>
#include <memory>
#include <vector>

#include "telar/core/error.h"
#include "telar/device/cuda/check.h"
#include "telar/device/cuda/fastest.h"
#include "telar/device/cuda/kernels/kernel_table.h"

// cuDNN's functions of one convolution each, which need no description of a whole graph; they are the older ones of its two
// interfaces, and what fuses a convolution with its neighbours will need the newer one.
namespace telar::cuda {

namespace {

/// A convolution whose fastest algorithm wants more is computed by another one.
constexpr size_t kMostWorkspace = size_t{1} << 30;

cudnnDataType_t data_type(DType dtype) {
  return dtype == DType::bf16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_FLOAT;
}

int extent(int64_t value) {
  if (value > std::numeric_limits<int>::max())
    throw run_error("cuDNN cannot compute with an extent of {}", value);
  return static_cast<int>(value);
}

cudnnTensorFormat_t format(Layout layout) {
  return layout == Layout::channels_last ? CUDNN_TENSOR_NHWC : CUDNN_TENSOR_NCHW;
}

/// [N, C, H, W].
class TensorDescription {
 public:
  TensorDescription(const Shape& shape, DType dtype, Layout layout) {
    check(cudnnCreateTensorDescriptor(&tensor_), "describing a tensor");
    check(cudnnSetTensor4dDescriptor(tensor_, format(layout), data_type(dtype), extent(shape[0]),
                                     extent(shape[1]), extent(shape[2]), extent(shape[3])),
          "describing a tensor");
  }
  ~TensorDescription() { cudnnDestroyTensorDescriptor(tensor_); }
  TensorDescription(const TensorDescription&) = delete;
  TensorDescription& operator=(const TensorDescription&) = delete;
  cudnnTensorDescriptor_t get() const { return tensor_; }

 private:
  cudnnTensorDescriptor_t tensor_ = nullptr;
};

/// [O, C / groups, KH, KW].
class FilterDescription {
 public:
  FilterDescription(const Shape& shape, DType dtype, Layout layout) {
    check(cudnnCreateFilterDescriptor(&filter_), "describing weights");
    check(cudnnSetFilter4dDescriptor(filter_, data_type(dtype), format(layout), extent(shape[0]),
                                     extent(shape[1]), extent(shape[2]), extent(shape[3])),
          "describing weights");
  }
  ~FilterDescription() { cudnnDestroyFilterDescriptor(filter_); }
  FilterDescription(const FilterDescription&) = delete;
  FilterDescription& operator=(const FilterDescription&) = delete;
  cudnnFilterDescriptor_t get() const { return filter_; }

 private:
  cudnnFilterDescriptor_t filter_ = nullptr;
};

/// Sums in f32. FMA_MATH keeps f32 operands as they are: by default cuDNN rounds them to TF32.
class ConvolutionDescription {
 public:
  ConvolutionDescription(const Attributes& attributes, DType dtype) {
    const auto& padding = attributes.integers("padding");
    const auto& stride = attributes.integers("stride");
    const auto& dilation = attributes.integers("dilation");
    check(cudnnCreateConvolutionDescriptor(&convolution_), "describing a convolution");
    check(cudnnSetConvolution2dDescriptor(convolution_, extent(padding[0]), extent(padding[1]),
                                          extent(stride[0]), extent(stride[1]), extent(dilation[0]),
                                          extent(dilation[1]), CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT),
          "describing a convolution");
    check(cudnnSetConvolutionGroupCount(convolution_, extent(attributes.integer("groups"))),
          "describing a convolution");
    check(cudnnSetConvolutionMathType(convolution_,
                                      dtype == DType::bf16 ? CUDNN_TENSOR_OP_MATH : CUDNN_FMA_MATH),
          "describing a convolution");
  }
  ~ConvolutionDescription() { cudnnDestroyConvolutionDescriptor(convolution_); }
  ConvolutionDescription(const ConvolutionDescription&) = delete;
  ConvolutionDescription& operator=(const ConvolutionDescription&) = delete;
  cudnnConvolutionDescriptor_t get() const { return convolution_; }

 private:
  cudnnConvolutionDescriptor_t convolution_ = nullptr;
};

/// A convolution of values in one layout, with the algorithms that can compute it; there may be none.
class Convolution {
 public:
  Convolution(Gpu& gpu, const Shape& x, const Shape& w, const Shape& y, const Attributes& attributes,
              DType dtype, Layout layout)
      : gpu_(gpu),
        handle_(gpu.convolutions()),
        x_(x, dtype, layout),
        w_(w, dtype, layout),
        y_(y, dtype, layout),
        convolution_(attributes, dtype) {
    // Not those of Winograd and by Fourier transforms: they round elsewhere, and promises of equality rest on that (docs/design.md).
    for (const auto algorithm :
         {CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM, CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM,
          CUDNN_CONVOLUTION_FWD_ALGO_GEMM}) {
      size_t workspace = 0;
      const cudnnStatus_t status = cudnnGetConvolutionForwardWorkspaceSize(
          handle_, x_.get(), w_.get(), convolution_.get(), y_.get(), algorithm, &workspace);
      if (status == CUDNN_STATUS_SUCCESS && workspace <= kMostWorkspace)
        candidates_.push_back({algorithm, workspace});
    }
  }

  bool possible() const { return !candidates_.empty(); }
  size_t workspace() const {
    size_t most = 0;
    for (const Candidate& candidate : candidates_) most = std::max(most, candidate.workspace);
    return most;
  }

  // Pointers: x, w, y, workspace.
  void choose(const Pointers& p) {
    const auto best = fastest(gpu_, candidates_.size(), [&](size_t candidate) {
      return enqueue(candidate, p) == CUDNN_STATUS_SUCCESS;
    });
    if (!best) throw run_error("no algorithm of cuDNN can compute this convolution on {}", gpu_.name());
    chosen_ = *best;
  }
  void run(const Pointers& p) const { check(enqueue(chosen_, p), "a convolution"); }

 private:
  struct Candidate {
    cudnnConvolutionFwdAlgo_t algorithm;
    size_t workspace;
  };

  cudnnStatus_t enqueue(size_t candidate, const Pointers& p) const {
    const float one = 1;
    const float zero = 0;
    return cudnnConvolutionForward(handle_, &one, x_.get(), p[0], w_.get(), p[1], convolution_.get(),
                                   candidates_[candidate].algorithm, p[3], candidates_[candidate].workspace,
                                   &zero, y_.get(), p[2]);
  }

  const Gpu& gpu_;
  cudnnHandle_t handle_;
  TensorDescription x_;
  FilterDescription w_;
  TensorDescription y_;
  ConvolutionDescription convolution_;
  std::vector<Candidate> candidates_;
  size_t chosen_ = 0;
};

}  // namespace

void lower_conv2d(Lowering& lowering, const Node& node) {
  const ValueId x = node.inputs[0];
  const ValueId w = node.inputs[1];
  const ValueId y = node.outputs[0];
  if (node.inputs[2] != kNoValue || node.attributes.has("activation"))
    throw run_error("a GPU cannot compute conv2d with a bias or an activation yet");
  const auto in_layout = [&](Layout layout) {
    return std::make_shared<Convolution>(lowering.gpu(), lowering.shape(x), lowering.shape(w),
                                         lowering.shape(y), node.attributes, lowering.type(x).dtype, layout);
  };
  Layout layout = Layout::channels_last;
  auto convolution = in_layout(layout);
  if (!convolution->possible()) convolution = in_layout(layout = Layout::plain);
  if (!convolution->possible())
    throw run_error("cuDNN has no algorithm for this convolution on {}", lowering.gpu().name());
  const SlotId images = lowering.slot(x, layout);
  const SlotId weights = lowering.slot(w, layout);
  lowering.add(
      {images, weights}, {lowering.define(y, layout), lowering.temporary(convolution->workspace())},
      [convolution](const Pointers& p) { convolution->run(p); },
      [convolution](const Pointers& p) { convolution->choose(p); });
}

}  // namespace telar::cuda
