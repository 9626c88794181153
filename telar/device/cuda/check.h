#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <cudnn.h>

namespace telar::cuda {

/// Throws Error (run) unless the call succeeded. The message names the action, `what` ("copying an input"),
/// and the library's error.
void check(cudaError_t status, const char* what);
void check(cublasStatus_t status, const char* what);
void check(cudnnStatus_t status, const char* what);

}  // namespace telar::cuda
