// Stands for cuDNN: computes what its documentation says of convolutions, and spoils the workspace.
#include <cudnn.h>

#include <cstring>

#include "cuda/fakes.h"

using telar::test::fake;

struct cudnnTensorStruct {
  cudnnTensorFormat_t format;
  cudnnDataType_t type;
  int n, c, h, w;

  bool bf16() const { return type == CUDNN_DATA_BFLOAT16; }
  size_t place(int in, int ic, int ih, int iw) const {
    const int at =
        format == CUDNN_TENSOR_NHWC ? ((in * h + ih) * w + iw) * c + ic : ((in * c + ic) * h + ih) * w + iw;
    return static_cast<size_t>(at);
  }
};
struct cudnnFilterStruct : cudnnTensorStruct {};
struct cudnnConvolutionStruct {
  int pad_h, pad_w, stride_h, stride_w, dilation_h, dilation_w;
  int groups = 1;
  cudnnMathType_t math = CUDNN_DEFAULT_MATH;
};

namespace {

/// What cuDNN asks of the workspace; 0 bytes for what needs none. NOT_SUPPORTED for what cannot be computed.
cudnnStatus_t workspace_of(const cudnnTensorStruct& x, cudnnConvolutionFwdAlgo_t algorithm, size_t* bytes) {
  const bool last = x.format == CUDNN_TENSOR_NHWC;
  if (last && (!fake().channels_last || algorithm == CUDNN_CONVOLUTION_FWD_ALGO_GEMM))
    return CUDNN_STATUS_NOT_SUPPORTED;
  if (algorithm > CUDNN_CONVOLUTION_FWD_ALGO_GEMM) return CUDNN_STATUS_NOT_SUPPORTED;
  *bytes = algorithm == CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM ? 1000 : 0;
  return CUDNN_STATUS_SUCCESS;
}

}  // namespace

extern "C" {

cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  *handle = reinterpret_cast<cudnnHandle_t>(&fake());
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDestroy(cudnnHandle_t /*handle*/) { return CUDNN_STATUS_SUCCESS; }
cudnnStatus_t cudnnSetStream(cudnnHandle_t /*handle*/, cudaStream_t /*stream*/) {
  return CUDNN_STATUS_SUCCESS;
}
const char* cudnnGetErrorString(cudnnStatus_t /*status*/) { return "cuDNN's words"; }

cudnnStatus_t cudnnCreateTensorDescriptor(cudnnTensorDescriptor_t* tensor) {
  *tensor = new cudnnTensorStruct{};
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDestroyTensorDescriptor(cudnnTensorDescriptor_t tensor) {
  delete tensor;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetTensor4dDescriptor(cudnnTensorDescriptor_t tensor, cudnnTensorFormat_t format,
                                         cudnnDataType_t type, int n, int c, int h, int w) {
  *tensor = {format, type, n, c, h, w};
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnCreateFilterDescriptor(cudnnFilterDescriptor_t* filter) {
  *filter = new cudnnFilterStruct{};
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDestroyFilterDescriptor(cudnnFilterDescriptor_t filter) {
  delete filter;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetFilter4dDescriptor(cudnnFilterDescriptor_t filter, cudnnDataType_t type,
                                         cudnnTensorFormat_t format, int k, int c, int h, int w) {
  *filter = {{format, type, k, c, h, w}};
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnCreateConvolutionDescriptor(cudnnConvolutionDescriptor_t* convolution) {
  *convolution = new cudnnConvolutionStruct{};
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDestroyConvolutionDescriptor(cudnnConvolutionDescriptor_t convolution) {
  delete convolution;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetConvolution2dDescriptor(cudnnConvolutionDescriptor_t convolution, int pad_h, int pad_w,
                                              int stride_h, int stride_w, int dilation_h, int dilation_w,
                                              cudnnConvolutionMode_t mode, cudnnDataType_t compute) {
  if (mode != CUDNN_CROSS_CORRELATION || compute != CUDNN_DATA_FLOAT) return CUDNN_STATUS_NOT_SUPPORTED;
  *convolution = {pad_h, pad_w, stride_h, stride_w, dilation_h, dilation_w};
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetConvolutionGroupCount(cudnnConvolutionDescriptor_t convolution, int groups) {
  convolution->groups = groups;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetConvolutionMathType(cudnnConvolutionDescriptor_t convolution, cudnnMathType_t math) {
  convolution->math = math;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetConvolutionForwardWorkspaceSize(cudnnHandle_t /*handle*/,
                                                      const cudnnTensorDescriptor_t x,
                                                      const cudnnFilterDescriptor_t /*w*/,
                                                      const cudnnConvolutionDescriptor_t /*convolution*/,
                                                      const cudnnTensorDescriptor_t /*y*/,
                                                      cudnnConvolutionFwdAlgo_t algorithm, size_t* bytes) {
  return workspace_of(*x, algorithm, bytes);
}

cudnnStatus_t cudnnConvolutionForward(cudnnHandle_t /*handle*/, const void* alpha,
                                      const cudnnTensorDescriptor_t x, const void* x_values,
                                      const cudnnFilterDescriptor_t w, const void* w_values,
                                      const cudnnConvolutionDescriptor_t convolution,
                                      cudnnConvolutionFwdAlgo_t algorithm, void* workspace, size_t bytes,
                                      const void* beta, const cudnnTensorDescriptor_t y, void* y_values) {
  const cudnnConvolutionStruct& of = *convolution;
  const bool plain = *static_cast<const float*>(alpha) == 1 && *static_cast<const float*>(beta) == 0;
  size_t wanted = 0;
  const cudnnStatus_t status = workspace_of(*x, algorithm, &wanted);
  if (status != CUDNN_STATUS_SUCCESS) return status;
  const auto math = x->bf16() ? CUDNN_TENSOR_OP_MATH : CUDNN_FMA_MATH;  // else f32 would be TF32
  const int high = (x->h + 2 * of.pad_h - of.dilation_h * (w->h - 1) - 1) / of.stride_h + 1;
  const int wide = (x->w + 2 * of.pad_w - of.dilation_w * (w->w - 1) - 1) / of.stride_w + 1;
  if (!plain || bytes != wanted || of.math != math || y->n != x->n || y->c != w->n || y->h != high ||
      y->w != wide || x->c != w->c * of.groups || w->format != x->format || y->format != x->format ||
      w->type != x->type || y->type != x->type || !telar::test::is_aligned(x_values) ||
      !telar::test::is_aligned(w_values) || !telar::test::is_aligned(y_values))
    return CUDNN_STATUS_BAD_PARAM;
  ++fake().convolutions;
  if (bytes > 0) std::memset(workspace, 0xff, bytes);
  for (int n = 0; n < y->n; ++n) {
    for (int o = 0; o < y->c; ++o) {
      const int first = o / (y->c / of.groups) * w->c;  // channel of the group
      for (int h = 0; h < y->h; ++h) {
        for (int v = 0; v < y->w; ++v) {
          double sum = 0;
          for (int c = 0; c < w->c; ++c) {
            for (int i = 0; i < w->h; ++i) {
              for (int j = 0; j < w->w; ++j) {
                const int row = h * of.stride_h - of.pad_h + i * of.dilation_h;
                const int column = v * of.stride_w - of.pad_w + j * of.dilation_w;
                if (row < 0 || row >= x->h || column < 0 || column >= x->w) continue;
                sum += static_cast<double>(
                           telar::test::load(x_values, x->bf16(), x->place(n, first + c, row, column))) *
                       telar::test::load(w_values, w->bf16(), w->place(o, c, i, j));
              }
            }
          }
          telar::test::store(y_values, y->bf16(), y->place(n, o, h, v), static_cast<float>(sum));
        }
      }
    }
  }
  return CUDNN_STATUS_SUCCESS;
}

}  // extern "C"
