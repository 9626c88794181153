#pragma once

#include <cublasLt.h>

#include <functional>
#include <optional>

#include "telar/core/dtype.h"
#include "telar/device/cuda/fastest.h"
#include "telar/device/cuda/gpu.h"
#include "telar/device/cuda/kernels/matrix_product.h"

namespace telar::cuda {

/// What a product y = a · b of [M, K] and [K, N] does beside multiplying, with a vector v of y's type.
enum class Epilogue : uint8_t {
  none,
  relu,          ///< y = max(0, a · b)
  bias,          ///< y = a · b + v in each row; v: [N]
  bias_relu,     ///< y = max(0, a · b + v)
  bias_gradient  ///< v = Σ a over k, v: [M], is made: where a · b is dyᵀ · x, the gradient of the bias
};

/// What every piece of memory that a product works on is a multiple of, in bytes: parameters, gradients and
/// activations are.
inline constexpr size_t kProductAlignment = 16;

struct ProductOptions {
  DType operands = DType::f32;  ///< f32 or bf16; sums are in f32
  DType result = DType::f32;    ///< f32, or the operands' type
  Epilogue epilogue = Epilogue::none;
  bool accumulate = false;  ///< y += a · b
  bool tf32 = false;        ///< operands in f32 may be rounded to TF32
  size_t alignment =
      kProductAlignment;  ///< of a, b and y where they are parts of something: a power of two below it
};

/// The memory of a product; row-major matrices.
struct ProductMemory {
  const void* a = nullptr;
  const void* b = nullptr;
  void* y = nullptr;
  void* vector = nullptr;     ///< of the epilogue, aligned to kProductAlignment; null where it has none
  void* workspace = nullptr;  ///< Product::workspace() bytes, aligned to kMemoryAlignment
};

/// Does what an epilogue does by a loop of ours, told to the stream after a product without one.
using EpilogueLoop = std::function<cudaError_t(const ProductMemory&)>;

/// What cuBLASLt is told of a product; it asks to be destroyed.
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

/// A matrix, or a batch of some, as cuBLASLt is told of it.
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

/// A product on a GPU with the algorithms that can compute it, of which the fastest is chosen in the memory
/// where it is to run. Each gives the same bits every time: partial sums stay in f32 and are added in one
/// order. Not for two threads at once.
class Product {
 public:
  /// With a `loop`, the product without the epilogue and the loop after it is one more way to compute it: the
  /// only one where cuBLASLt has no algorithm with the epilogue. Throws Error (run) when there is no way.
  Product(Gpu& gpu, const MatrixProduct& product, const ProductOptions& options, EpilogueLoop loop = {});
  Product(const Product&) = delete;
  Product& operator=(const Product&) = delete;

  /// Bytes that are enough for each of the algorithms; the loop may use them, too.
  size_t workspace() const { return candidates_.workspace(); }
  /// Throws Error (run) when none of the algorithms can run.
  void choose(const ProductMemory& memory);
  /// Tells the stream to compute it with the chosen algorithm, or, before, the likeliest one.
  void run(const ProductMemory& memory);

 private:
  struct Candidate {
    bool loop;  ///< without the epilogue, and the loop after it
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
