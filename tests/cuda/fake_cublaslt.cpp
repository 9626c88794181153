// Stands for cuBLASLt: computes what its documentation says of column-major matrices, and spoils the workspace.
#include <cublasLt.h>

#include <cstring>

#include "cuda/fakes.h"

namespace {

using telar::test::fake;

struct Matrix {
  cudaDataType_t type;
  uint64_t rows;
  uint64_t columns;
  int64_t distance;
  int32_t batch = 1;
  int64_t stride = 0;
};
struct Product {
  cublasComputeType_t compute;
  int32_t left = CUBLAS_OP_N;
  int32_t right = CUBLAS_OP_N;
};

const Matrix& matrix(cublasLtMatrixLayout_t layout) { return *reinterpret_cast<const Matrix*>(layout); }

size_t place(const Matrix& of, int32_t operation, int64_t index, uint64_t row, uint64_t column) {
  if (operation == CUBLAS_OP_T) std::swap(row, column);
  return static_cast<size_t>(index * of.stride) + column * static_cast<size_t>(of.distance) + row;
}

constexpr size_t kWorkspace = 512;

}  // namespace

extern "C" {

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  *handle = nullptr;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t /*handle*/) { return CUBLAS_STATUS_SUCCESS; }
const char* cublasLtGetStatusString(cublasStatus_t /*status*/) { return "cuBLASLt's words"; }

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType type, uint64_t rows,
                                          uint64_t columns, int64_t distance) {
  *layout = reinterpret_cast<cublasLtMatrixLayout_t>(new Matrix{type, rows, columns, distance});
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  delete reinterpret_cast<Matrix*>(layout);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t attribute, const void* value,
                                                size_t bytes) {
  auto& of = *reinterpret_cast<Matrix*>(layout);
  if (attribute == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT && bytes == sizeof(of.batch)) {
    std::memcpy(&of.batch, value, bytes);
  } else if (attribute == CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET && bytes == sizeof(of.stride)) {
    std::memcpy(&of.stride, value, bytes);
  } else {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* description, cublasComputeType_t compute,
                                        cudaDataType_t scale) {
  if (scale != CUDA_R_32F) return CUBLAS_STATUS_NOT_SUPPORTED;
  *description = reinterpret_cast<cublasLtMatmulDesc_t>(new Product{compute});
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t description) {
  delete reinterpret_cast<Product*>(description);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t description,
                                              cublasLtMatmulDescAttributes_t attribute, const void* value,
                                              size_t bytes) {
  auto& product = *reinterpret_cast<Product*>(description);
  if (bytes != sizeof(int32_t)) return CUBLAS_STATUS_INVALID_VALUE;
  if (attribute != CUBLASLT_MATMUL_DESC_TRANSA && attribute != CUBLASLT_MATMUL_DESC_TRANSB)
    return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(attribute == CUBLASLT_MATMUL_DESC_TRANSA ? &product.left : &product.right, value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  *preference = nullptr;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t /*preference*/) {
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t /*preference*/,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void* /*value*/, size_t bytes) {
  const size_t wanted =
      attribute == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES ? sizeof(uint64_t) : sizeof(uint32_t);
  return bytes == wanted ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}

/// Four proposals, of which the third is none.
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t /*handle*/, cublasLtMatmulDesc_t /*product*/,
                                              cublasLtMatrixLayout_t /*left*/,
                                              cublasLtMatrixLayout_t /*right*/, cublasLtMatrixLayout_t /*c*/,
                                              cublasLtMatrixLayout_t /*d*/,
                                              cublasLtMatmulPreference_t /*preference*/, int requested,
                                              cublasLtMatmulHeuristicResult_t results[], int* found) {
  if (requested < 4) return CUBLAS_STATUS_INVALID_VALUE;
  for (int i = 0; i < 4; ++i) {
    results[i] = {};
    results[i].algo.data[0] = static_cast<uint64_t>(i);
    results[i].workspaceSize = static_cast<size_t>(i) * kWorkspace;
    results[i].state = i == 2 ? CUBLAS_STATUS_NOT_SUPPORTED : CUBLAS_STATUS_SUCCESS;
  }
  *found = 4;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t /*handle*/, cublasLtMatmulDesc_t description,
                              const void* alpha, const void* a, cublasLtMatrixLayout_t a_layout,
                              const void* b, cublasLtMatrixLayout_t b_layout, const void* beta, const void* c,
                              cublasLtMatrixLayout_t /*c_layout*/, void* d, cublasLtMatrixLayout_t d_layout,
                              const cublasLtMatmulAlgo_t* algorithm, void* workspace, size_t bytes,
                              cudaStream_t /*stream*/) {
  const auto& product = *reinterpret_cast<const Product*>(description);
  const Matrix& left = matrix(a_layout);
  const Matrix& right = matrix(b_layout);
  const Matrix& result = matrix(d_layout);
  const bool plain = *static_cast<const float*>(alpha) == 1 && *static_cast<const float*>(beta) == 0;
  const uint64_t rows = product.left == CUBLAS_OP_T ? left.columns : left.rows;
  const uint64_t depth = product.left == CUBLAS_OP_T ? left.rows : left.columns;
  const uint64_t columns = product.right == CUBLAS_OP_T ? right.rows : right.columns;
  if (!plain || c != d || product.compute != CUBLAS_COMPUTE_32F || left.type != right.type ||
      left.type != result.type || rows != result.rows || columns != result.columns ||
      depth != (product.right == CUBLAS_OP_T ? right.columns : right.rows) || left.batch != result.batch ||
      right.batch != result.batch || algorithm->data[0] == 2 || bytes != algorithm->data[0] * kWorkspace ||
      !telar::test::is_aligned(a) || !telar::test::is_aligned(b) || !telar::test::is_aligned(d) ||
      !telar::test::is_aligned(workspace))
    return CUBLAS_STATUS_INVALID_VALUE;
  if (static_cast<int>(algorithm->data[0]) < 4 - fake().products_that_work)
    return CUBLAS_STATUS_NOT_SUPPORTED;
  ++fake().products;
  const bool bf16 = result.type == CUDA_R_16BF;
  if (bytes > 0) std::memset(workspace, 0xff, bytes);
  for (int64_t m = 0; m < result.batch; ++m) {
    for (uint64_t row = 0; row < rows; ++row) {
      for (uint64_t column = 0; column < columns; ++column) {
        double sum = 0;
        for (uint64_t k = 0; k < depth; ++k)
          sum += static_cast<double>(telar::test::load(a, bf16, place(left, product.left, m, row, k))) *
                 telar::test::load(b, bf16, place(right, product.right, m, k, column));
        telar::test::store(d, bf16, place(result, CUBLAS_OP_N, m, row, column), static_cast<float>(sum));
      }
    }
  }
  return CUBLAS_STATUS_SUCCESS;
}

}  // extern "C"
