#include "telar/device/cuda/check.h"

#include "telar/core/error.h"

namespace telar::cuda {

void check(cudaError_t status, const char* what) {
  if (status != cudaSuccess) throw run_error("CUDA: {} failed: {}", what, cudaGetErrorString(status));
}

void check(cublasStatus_t status, const char* what) {
  if (status != CUBLAS_STATUS_SUCCESS)
    throw run_error("cuBLASLt: {} failed: {}", what, cublasLtGetStatusString(status));
}

void check(cudnnStatus_t status, const char* what) {
  if (status != CUDNN_STATUS_SUCCESS)
    throw run_error("cuDNN: {} failed: {}", what, cudnnGetErrorString(status));
}

}  // namespace telar::cuda
