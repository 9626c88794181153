#include <algorithm>
#include <memory>
#include <vector>

#include "telar/core/error.h"
#include "telar/device/cuda/check.h"
#include "telar/device/cuda/fastest.h"
#include "telar/device/cuda/kernels/kernel_table.h"
#include "telar/device/cuda/kernels/matrix_product.h"

namespace telar::cuda {

namespace {

/// What cuBLASLt may use beside the matrices: as much as its own documentation advises for Hopper.
constexpr uint64_t kMostWorkspace = uint64_t{32} << 20;
constexpr int kCandidates = 8;

cudaDataType_t data_type(DType dtype) { return dtype == DType::bf16 ? CUDA_R_16BF : CUDA_R_32F; }

/// Descriptions for cuBLASLt, which ask to be destroyed.
class MatrixLayout {
 public:
  MatrixLayout(const ColumnMajor& matrix, int64_t batch, DType dtype) {
    check(cublasLtMatrixLayoutCreate(&layout_, data_type(dtype), static_cast<uint64_t>(matrix.rows),
                                     static_cast<uint64_t>(matrix.columns), matrix.rows),
          "describing a matrix");
    const auto count = static_cast<int32_t>(batch);
    const int64_t stride = matrix.rows * matrix.columns;
    set(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, count);
    set(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, stride);
  }
  ~MatrixLayout() { cublasLtMatrixLayoutDestroy(layout_); }
  MatrixLayout(const MatrixLayout&) = delete;
  MatrixLayout& operator=(const MatrixLayout&) = delete;
  cublasLtMatrixLayout_t get() const { return layout_; }

 private:
  template <typename T>
  void set(cublasLtMatrixLayoutAttribute_t attribute, const T& value) {
    check(cublasLtMatrixLayoutSetAttribute(layout_, attribute, &value, sizeof(value)), "describing a matrix");
  }
  cublasLtMatrixLayout_t layout_ = nullptr;
};

/// Sums in f32, and f32 operands as they are (no TF32).
class ProductDescription {
 public:
  explicit ProductDescription(const MatrixProduct& product) {
    check(cublasLtMatmulDescCreate(&description_, CUBLAS_COMPUTE_32F, CUDA_R_32F), "describing a product");
    set(CUBLASLT_MATMUL_DESC_TRANSA, product.left.transposed);
    set(CUBLASLT_MATMUL_DESC_TRANSB, product.right.transposed);
  }
  ~ProductDescription() { cublasLtMatmulDescDestroy(description_); }
  ProductDescription(const ProductDescription&) = delete;
  ProductDescription& operator=(const ProductDescription&) = delete;
  cublasLtMatmulDesc_t get() const { return description_; }

 private:
  void set(cublasLtMatmulDescAttributes_t attribute, bool transposed) {
    const int32_t operation = transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    check(cublasLtMatmulDescSetAttribute(description_, attribute, &operation, sizeof(operation)),
          "describing a product");
  }
  cublasLtMatmulDesc_t description_ = nullptr;
};

/// Partial sums stay in f32 and are added in one order, so that a product gives the same bits every time.
class Preference {
 public:
  Preference() {
    check(cublasLtMatmulPreferenceCreate(&preference_), "preparing a search");
    const uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kMostWorkspace);
    set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, reductions);
  }
  ~Preference() { cublasLtMatmulPreferenceDestroy(preference_); }
  Preference(const Preference&) = delete;
  Preference& operator=(const Preference&) = delete;
  cublasLtMatmulPreference_t get() const { return preference_; }

 private:
  template <typename T>
  void set(cublasLtMatmulPreferenceAttributes_t attribute, const T& value) {
    check(cublasLtMatmulPreferenceSetAttribute(preference_, attribute, &value, sizeof(value)),
          "preparing a search");
  }
  cublasLtMatmulPreference_t preference_ = nullptr;
};

/// A product with the algorithms that cuBLASLt proposes for it, the likeliest first.
class Product {
 public:
  Product(const Gpu& gpu, const MatrixProduct& product, DType dtype)
      : gpu_(gpu),
        description_(product),
        left_(product.left, product.batch, dtype),
        right_(product.right, product.batch, dtype),
        result_(product.result, product.batch, dtype),
        candidates_(kCandidates) {
    const Preference preference;
    int found = 0;
    const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
        gpu_.products(), description_.get(), left_.get(), right_.get(), result_.get(), result_.get(),
        preference.get(), kCandidates, candidates_.data(), &found);
    // Nothing found is a status of its own, and said below.
    if (status != CUBLAS_STATUS_NOT_SUPPORTED) check(status, "looking for an algorithm");
    candidates_.resize(static_cast<size_t>(found));
    std::erase_if(candidates_,
                  [](const auto& candidate) { return candidate.state != CUBLAS_STATUS_SUCCESS; });
    if (candidates_.empty()) throw run_error("cuBLASLt has no algorithm for this product on {}", gpu_.name());
  }

  size_t workspace() const {
    size_t most = 0;
    for (const auto& candidate : candidates_) most = std::max(most, candidate.workspaceSize);
    return most;
  }

  // Pointers: a, b, y, workspace.
  void choose(const Pointers& p) {
    const auto best = fastest(gpu_, candidates_.size(), [&](size_t candidate) {
      return enqueue(candidate, p) == CUBLAS_STATUS_SUCCESS;
    });
    if (!best) throw run_error("no algorithm of cuBLASLt can compute this product on {}", gpu_.name());
    chosen_ = *best;
  }
  void run(const Pointers& p) const { check(enqueue(chosen_, p), "a product"); }

 private:
  cublasStatus_t enqueue(size_t candidate, const Pointers& p) const {
    const float one = 1;
    const float zero = 0;
    const cublasLtMatmulHeuristicResult_t& algorithm = candidates_[candidate];
    return cublasLtMatmul(gpu_.products(), description_.get(), &one, p[1], left_.get(), p[0], right_.get(),
                          &zero, p[2], result_.get(), p[2], result_.get(), &algorithm.algo, p[3],
                          algorithm.workspaceSize, gpu_.stream());
  }

  const Gpu& gpu_;
  ProductDescription description_;
  MatrixLayout left_;
  MatrixLayout right_;
  MatrixLayout result_;
  std::vector<cublasLtMatmulHeuristicResult_t> candidates_;
  size_t chosen_ = 0;
};

}  // namespace

void lower_matmul(Lowering& lowering, const Node& node) {
  const ValueId a = node.inputs[0];
  const ValueId b = node.inputs[1];
  const ValueId y = node.outputs[0];
  const auto product = std::make_shared<Product>(
      lowering.gpu(),
      matrix_product(lowering.shape(a), node.attributes.flag("transpose_a"), lowering.shape(b),
                     node.attributes.flag("transpose_b"), lowering.shape(y)),
      lowering.type(y).dtype);
  const SlotId left = lowering.slot(a, Layout::plain);
  const SlotId right = lowering.slot(b, Layout::plain);
  lowering.add(
      {left, right}, {lowering.define(y, Layout::plain), lowering.temporary(product->workspace())},
      [product](const Pointers& p) { product->run(p); },
      [product](const Pointers& p) { product->choose(p); });
}

}  // namespace telar::cuda
