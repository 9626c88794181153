#pragma once

#include <cublasLt.h>

#include <functional>
#include <optional>

#include "telar/core/dtype.h"
#include "telar/device/cuda/fastest.h"
#include "telar/device/cuda/gpu.h"
#include "telar/device/cuda/kernels/common/matrix_product.h"

namespace telar::cuda {

/// What a product y = a · b of [M, K] and [K, N] computes in addition, with a vector v of y's type.
enum class Epilogue : uint8_t {
  none,
  relu,          ///< y = max(0, a · b)
  bias,          ///< y = a · b + v in each row; v: [N]
  bias_relu,     ///< y = max(0, a · b + v)
  bias_gradient  ///< writes v = Σ a over k, v: [M]; for a · b = dyᵀ · x, the gradient of the bias
};

/// Alignment in bytes of all memory of a product; parameters, gradients and activations satisfy it.
inline constexpr size_t kProductAlignment = 16;

struct ProductOptions {
  DType operands = DType::f32;  ///< f32 or bf16; sums are in f32
  DType result = DType::f32;    ///< f32, or the operands' type
  Epilogue epilogue = Epilogue::none;
  bool accumulate = false;  ///< y += a · b
  bool tf32 = false;        ///< operands in f32 may be rounded to TF32
  /// Of a, b and y when they are parts of larger memory: a power of two, at most kProductAlignment.
  size_t alignment = kProductAlignment;
};

/// The memory of a product: row-major matrices.
struct ProductMemory {
  const void* a = nullptr;
  const void* b = nullptr;
  void* y = nullptr;
  void* vector = nullptr;     ///< of the epilogue, aligned to kProductAlignment; null without one
  void* workspace = nullptr;  ///< Product::workspace() bytes, aligned to kMemoryAlignment
};

/// Computes an epilogue with a loop of ours, enqueued after a product without epilogue.
using EpilogueLoop = std::function<cudaError_t(const ProductMemory&)>;

/// cuBLASLt's descriptor of a product.
class ProductDescription {
 public:
  ProductDescription(const MatrixProduct& product, const ProductOptions& options, Epilogue epilogue);
  ~ProductDescription() { cublasLtMatmulDescDestroy(description_); }
  ProductDescription(const ProductDescription&) = delete;
  ProductDescription& operator=(const ProductDescription&) = delete;
  cublasLtMatmulDesc_t get() const { return description_; }
  void set_vector(const void* vector) { set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, vector); }

 private:
  template <typename T>
  void set(cublasLtMatmulDescAttributes_t attribute, const T& value);
  cublasLtMatmulDesc_t description_ = nullptr;
};

/// cuBLASLt's descriptor of a matrix, or of a batch of matrices.
class MatrixLayout {
 public:
  MatrixLayout(const ColumnMajor& matrix, int64_t batch, DType dtype);
  ~MatrixLayout() { cublasLtMatrixLayoutDestroy(layout_); }
  MatrixLayout(const MatrixLayout&) = delete;
  MatrixLayout& operator=(const MatrixLayout&) = delete;
  cublasLtMatrixLayout_t get() const { return layout_; }

 private:
  cublasLtMatrixLayout_t layout_ = nullptr;
};

/// A product on a GPU with the algorithms that can compute it. The fastest one is chosen in the memory where
/// it will run. Each algorithm produces the same bits every time: partial sums stay in f32 and are added in a
/// fixed order. Not thread-safe.
class Product {
 public:
  /// With a `loop`, the product without epilogue followed by the loop is a further candidate, and the only
  /// one if cuBLASLt has no algorithm with the epilogue. Throws Error (run) when there is no candidate.
  Product(Gpu& gpu, const MatrixProduct& product, const ProductOptions& options, EpilogueLoop loop = {});
  Product(const Product&) = delete;
  Product& operator=(const Product&) = delete;

  /// Bytes that suffice for each algorithm; the loop may use them, too.
  size_t workspace() const { return candidates_.workspace(); }
  /// Throws Error (run) when no algorithm can run.
  void choose(const ProductMemory& memory);
  /// Enqueues the product with the chosen algorithm; before choose(), with the most promising one.
  void run(const ProductMemory& memory);

 private:
  struct Candidate {
    bool loop;  ///< without the epilogue, followed by the loop
    cublasLtMatmulHeuristicResult_t algorithm;
  };

  void find_candidates(ProductDescription& description, bool loop);
  cublasStatus_t enqueue(const Candidate& candidate, const ProductMemory& memory);

  Gpu& gpu_;
  ProductOptions options_;
  EpilogueLoop loop_;
  ProductDescription fused_;
  std::optional<ProductDescription> plain_;  ///< without the epilogue; only with a loop
  MatrixLayout left_;
  MatrixLayout right_;
  MatrixLayout result_;
  Candidates<Candidate> candidates_;
};

}  // namespace telar::cuda
