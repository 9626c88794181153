// A fake cuBLASLt. It computes column-major products as the documentation describes, overwrites the
// workspace, and refuses calls that break its promises or that it does not support.
#include <cublasLt.h>

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <thread>

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
  uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  void* vector = nullptr;

  bool adds() const { return epilogue == CUBLASLT_EPILOGUE_BIAS || epilogue == CUBLASLT_EPILOGUE_RELU_BIAS; }
  bool cuts() const { return epilogue == CUBLASLT_EPILOGUE_RELU || epilogue == CUBLASLT_EPILOGUE_RELU_BIAS; }
  bool sums() const { return epilogue == CUBLASLT_EPILOGUE_BGRADB; }
  bool rounds() const { return compute == CUBLAS_COMPUTE_32F_FAST_TF32; }
};
/// Alignments of A, B, C, D.
struct Preference {
  uint64_t workspace = 0;
  uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_MASK;
  std::array<uint32_t, 4> alignments{256, 256, 256, 256};
};
/// The promises under which an algorithm was found: words of its `data` after the first, which is its number.
enum Promised : size_t {
  kAlignmentA = 1,
  kAlignmentB,
  kAlignmentC,
  kAlignmentD,
  kAlignmentOfVector,
  kEpilogue
};

const Matrix& matrix(cublasLtMatrixLayout_t layout) { return *reinterpret_cast<const Matrix*>(layout); }

size_t place(const Matrix& of, int32_t operation, int64_t index, uint64_t row, uint64_t column) {
  if (operation == CUBLAS_OP_T) std::swap(row, column);
  return static_cast<size_t>(index * of.stride) + column * static_cast<size_t>(of.distance) + row;
}
uint64_t rows_of(const Matrix& of, int32_t operation) {
  return operation == CUBLAS_OP_T ? of.columns : of.rows;
}
uint64_t columns_of(const Matrix& of, int32_t operation) {
  return operation == CUBLAS_OP_T ? of.rows : of.columns;
}

constexpr size_t kWorkspace = 512;

bool is_multiple(const void* memory, uint64_t of) { return reinterpret_cast<uintptr_t>(memory) % of == 0; }

/// The documented type combinations of f32 and bf16 with sums in f32, where an epilogue's vector has D's
/// type.
bool types_go_together(const Product& product, const Matrix& left, const Matrix& right,
                       const Matrix& result) {
  if (left.type != right.type) return false;
  if (left.type == CUDA_R_16BF && product.rounds()) return false;
  return result.type == CUDA_R_32F || result.type == left.type;
}

bool shapes_go_together(const Product& product, const Matrix& left, const Matrix& right,
                        const Matrix& result) {
  const auto has_room = [](const Matrix& of) { return of.distance >= static_cast<int64_t>(of.rows); };
  return has_room(left) && has_room(right) && has_room(result) && left.batch == result.batch &&
         right.batch == result.batch && rows_of(left, product.left) == result.rows &&
         columns_of(right, product.right) == result.columns &&
         columns_of(left, product.left) == rows_of(right, product.right);
}

/// Rounded to 10 bits of mantissa, as TF32 does.
float rounded(float value) {
  auto bits = std::bit_cast<uint32_t>(value);
  bits = (bits + 0x1000U) & ~0x1fffU;
  return std::bit_cast<float>(bits);
}

/// The sum over k for one element of the result.
double dot(const Product& product, const Matrix& left, const void* a, const Matrix& right, const void* b,
           int64_t index, uint64_t row, uint64_t column) {
  const bool bf16 = left.type == CUDA_R_16BF;
  double sum = 0;
  for (uint64_t k = 0; k < columns_of(left, product.left); ++k) {
    const float first = telar::test::load(a, bf16, place(left, product.left, index, row, k));
    const float second = telar::test::load(b, bf16, place(right, product.right, index, k, column));
    sum += product.rounds() ? static_cast<double>(rounded(first)) * rounded(second)
                            : static_cast<double>(first) * second;
  }
  return sum;
}

/// BGRADB: for each column of D, the sum of B over k.
void sum_columns(const Product& product, const Matrix& right, const void* b, bool bf16_sums) {
  for (uint64_t column = 0; column < columns_of(right, product.right); ++column) {
    double sum = 0;
    for (uint64_t k = 0; k < rows_of(right, product.right); ++k)
      sum += telar::test::load(b, right.type == CUDA_R_16BF, place(right, product.right, 0, k, column));
    telar::test::store(product.vector, bf16_sums, column, static_cast<float>(sum));
  }
}

/// D = A · B, plus the old contents if they are kept; with the epilogue.
void multiply(const Product& product, const Matrix& left, const void* a, const Matrix& right, const void* b,
              float kept, const Matrix& result, void* d) {
  const bool bf16 = result.type == CUDA_R_16BF;
  if (product.sums()) sum_columns(product, right, b, bf16);
  for (int64_t m = 0; m < result.batch; ++m) {
    for (uint64_t row = 0; row < result.rows; ++row) {
      for (uint64_t column = 0; column < result.columns; ++column) {
        const size_t at = place(result, CUBLAS_OP_N, m, row, column);
        double value = dot(product, left, a, right, b, m, row, column);
        if (kept != 0) value += static_cast<double>(kept) * telar::test::load(d, bf16, at);
        if (product.adds()) value += telar::test::load(product.vector, bf16, row);
        if (product.cuts()) value = std::max(value, 0.0);
        telar::test::store(d, bf16, at, static_cast<float>(value));
      }
    }
  }
}

}  // namespace

extern "C" {

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  *handle = nullptr;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t /*handle*/) { return CUBLAS_STATUS_SUCCESS; }
size_t cublasLtGetVersion() { return 130001; }
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
  if (scale != CUDA_R_32F || (compute != CUBLAS_COMPUTE_32F && compute != CUBLAS_COMPUTE_32F_FAST_TF32))
    return CUBLAS_STATUS_NOT_SUPPORTED;
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
  const auto take = [&](auto& field) {
    if (bytes != sizeof(field)) return CUBLAS_STATUS_INVALID_VALUE;
    std::memcpy(&field, value, bytes);
    return CUBLAS_STATUS_SUCCESS;
  };
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA: return take(product.left);
    case CUBLASLT_MATMUL_DESC_TRANSB: return take(product.right);
    case CUBLASLT_MATMUL_DESC_EPILOGUE: return take(product.epilogue);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER: return take(product.vector);
    default: return CUBLAS_STATUS_INVALID_VALUE;
  }
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  *preference = reinterpret_cast<cublasLtMatmulPreference_t>(new Preference);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  delete reinterpret_cast<Preference*>(preference);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void* value, size_t bytes) {
  auto& wanted = *reinterpret_cast<Preference*>(preference);
  const auto take = [&](auto& field) {
    if (bytes != sizeof(field)) return CUBLAS_STATUS_INVALID_VALUE;
    std::memcpy(&field, value, bytes);
    return CUBLAS_STATUS_SUCCESS;
  };
  switch (attribute) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES: return take(wanted.workspace);
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK: return take(wanted.reductions);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES: return take(wanted.alignments[0]);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES: return take(wanted.alignments[1]);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES: return take(wanted.alignments[2]);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES: return take(wanted.alignments[3]);
    default: return CUBLAS_STATUS_INVALID_VALUE;
  }
}

/// Proposes four algorithms, of which the third is invalid. Each stores the promises under which it was
/// found. None for an epilogue if the fake supports none.
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t /*handle*/, cublasLtMatmulDesc_t description,
                                              cublasLtMatrixLayout_t left, cublasLtMatrixLayout_t right,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int requested,
                                              cublasLtMatmulHeuristicResult_t results[], int* found) {
  const auto& product = *reinterpret_cast<const Product*>(description);
  const auto& wanted = *reinterpret_cast<const Preference*>(preference);
  // Other reductions would add partial sums in the result's type, or in the order in which they are ready.
  if (requested < 4 || c != d || wanted.reductions != CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE)
    return CUBLAS_STATUS_INVALID_VALUE;
  *found = 0;
  const bool without = product.epilogue == CUBLASLT_EPILOGUE_DEFAULT;
  const bool known = without || product.adds() || product.sums() || product.cuts();
  if (!without && !fake().epilogues) return CUBLAS_STATUS_INVALID_VALUE;
  if (!known || !types_go_together(product, matrix(left), matrix(right), matrix(d)) ||
      !shapes_go_together(product, matrix(left), matrix(right), matrix(d)))
    return CUBLAS_STATUS_NOT_SUPPORTED;
  const auto vector = reinterpret_cast<uintptr_t>(product.vector);
  if ((product.adds() || product.sums()) && vector == 0) return CUBLAS_STATUS_INVALID_VALUE;
  for (size_t i = 0; i < 4; ++i) {
    results[i] = {};
    auto& data = results[i].algo.data;
    data[0] = i;
    std::copy(wanted.alignments.begin(), wanted.alignments.end(), &data[kAlignmentA]);
    data[kAlignmentOfVector] = vector & (~vector + 1);  // the largest power of two in it
    data[kEpilogue] = product.epilogue;
    results[i].workspaceSize = i * kWorkspace;
    results[i].state = i == 2 ? CUBLAS_STATUS_NOT_SUPPORTED : CUBLAS_STATUS_SUCCESS;
  }
  *found = 4;
  return CUBLAS_STATUS_SUCCESS;
}

/// An algorithm consists of its number; everything else is 0.
cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t* algorithm,
                                                    cublasLtMatmulAlgoConfigAttributes_t attribute,
                                                    void* value, size_t bytes, size_t* /*written*/) {
  const bool narrow =
      attribute == CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID || attribute == CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID;
  if (bytes != (narrow ? sizeof(uint16_t) : sizeof(uint32_t))) return CUBLAS_STATUS_INVALID_VALUE;
  const auto number = attribute == CUBLASLT_ALGO_CONFIG_ID ? static_cast<uint32_t>(algorithm->data[0]) : 0;
  std::memcpy(value, &number, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t /*handle*/, cublasLtMatmulDesc_t description,
                              const void* alpha, const void* a, cublasLtMatrixLayout_t a_layout,
                              const void* b, cublasLtMatrixLayout_t b_layout, const void* beta, const void* c,
                              cublasLtMatrixLayout_t c_layout, void* d, cublasLtMatrixLayout_t d_layout,
                              const cublasLtMatmulAlgo_t* algorithm, void* workspace, size_t bytes,
                              cudaStream_t stream) {
  const auto& product = *reinterpret_cast<const Product*>(description);
  const Matrix& left = matrix(a_layout);
  const Matrix& right = matrix(b_layout);
  const Matrix& result = matrix(d_layout);
  const auto& data = algorithm->data;
  const float kept = *static_cast<const float*>(beta);
  const bool has_vector = product.adds() || product.sums();
  if (*static_cast<const float*>(alpha) != 1 || c != d || c_layout != d_layout ||
      !types_go_together(product, left, right, result) || !shapes_go_together(product, left, right, result) ||
      data[0] == 2 || bytes != data[0] * kWorkspace || data[kEpilogue] != product.epilogue ||
      !is_multiple(a, data[kAlignmentA]) || !is_multiple(b, data[kAlignmentB]) ||
      !is_multiple(d, std::max(data[kAlignmentC], data[kAlignmentD])) || !is_multiple(workspace, 256) ||
      (has_vector && (product.vector == nullptr || result.batch != 1 ||
                      !is_multiple(product.vector, data[kAlignmentOfVector]))))
    return CUBLAS_STATUS_INVALID_VALUE;
  if (static_cast<int>(data[0]) < 4 - fake().products_that_work) return CUBLAS_STATUS_NOT_SUPPORTED;
  telar::test::count(&telar::test::Fake::products);
  // The descriptors may be destroyed or changed before the stream runs this work.
  // A fault for a rehearsal of tests/gpu/folder/check.
  const char* fault = std::getenv("TELAR_FAKE_PRODUCTS");  // NOLINT(concurrency-mt-unsafe): no thread sets it
  const std::string_view how = fault != nullptr ? fault : "";
  telar::test::on_stream(stream, [=, product = product, left = left, right = right, result = result] {
    while (how == "hang") std::this_thread::sleep_for(std::chrono::seconds(1));
    if (bytes > 0) std::memset(workspace, 0xff, bytes);
    multiply(product, left, a, right, b, kept, result, d);
    if (how == "wrong") std::memset(d, 0x40, result.type == CUDA_R_16BF ? 2 : 4);  // the first element is 3
  });
  return CUBLAS_STATUS_SUCCESS;
}

}  // extern "C"
