#include "telar/device/cuda/products.h"

#include <fmt/format.h>

#include <array>
#include <utility>

#include "telar/core/error.h"
#include "telar/device/cuda/check.h"

namespace telar::cuda {

namespace {

/// Workspace limit in bytes: what cuBLASLt's documentation recommends for Hopper.
constexpr uint64_t kMostWorkspace = uint64_t{32} << 20;
constexpr int kCandidates = 8;

cudaDataType_t product_type(DType dtype) { return dtype == DType::bf16 ? CUDA_R_16BF : CUDA_R_32F; }

/// y = a · b is computed as yᵀ = bᵀ · aᵀ (matrix_product.h): cuBLASLt's second operand is a, and its rows are
/// the columns of y.
uint32_t named(Epilogue epilogue) {
  switch (epilogue) {
    case Epilogue::none: return CUBLASLT_EPILOGUE_DEFAULT;
    case Epilogue::relu: return CUBLASLT_EPILOGUE_RELU;
    case Epilogue::bias: return CUBLASLT_EPILOGUE_BIAS;
    case Epilogue::bias_relu: return CUBLASLT_EPILOGUE_RELU_BIAS;
    case Epilogue::bias_gradient: return CUBLASLT_EPILOGUE_BGRADB;
  }
  return CUBLASLT_EPILOGUE_DEFAULT;
}

bool has_vector(Epilogue epilogue) { return epilogue != Epilogue::none && epilogue != Epilogue::relu; }

/// Placeholder for an epilogue's vector during the search for algorithms. cuBLASLt derives the vector's
/// alignment from the address, so this one is aligned like the vectors and no more.
const void* vector_to_come() {
  alignas(2 * kProductAlignment) static constexpr std::array<std::byte, 2 * kProductAlignment> kNothing{};
  return &kNothing[kProductAlignment];
}

/// "128x64", with transposition and gaps.
std::string words_of(const ColumnMajor& matrix) {
  return fmt::format("{}x{}{}{}", matrix.rows, matrix.columns, matrix.transposed ? "T" : "",
                     matrix.gap > 0 ? fmt::format(" with gaps of {}", matrix.gap) : "");
}

/// Everything that the choice of an algorithm depends on.
std::string words_of(const MatrixProduct& product, const ProductOptions& options, bool loop) {
  const auto epilogue = static_cast<int>(options.epilogue);
  return fmt::format("cuBLASLt product: {} by {} times {}, {} to {}, epilogue {}{}{}{}, alignment {}",
                     words_of(product.left), words_of(product.right), product.batch,
                     name_of(options.operands), name_of(options.result), epilogue, loop ? " or loop" : "",
                     options.accumulate ? ", accumulating" : "", options.tf32 ? ", TF32" : "",
                     options.alignment);
}

/// The numbers that define an algorithm, and whether a loop follows it.
std::string name_of(const cublasLtMatmulAlgo_t& algorithm, bool loop) {
  std::string name = "algorithm";
  for (const auto attribute :
       {CUBLASLT_ALGO_CONFIG_ID, CUBLASLT_ALGO_CONFIG_TILE_ID, CUBLASLT_ALGO_CONFIG_SPLITK_NUM,
        CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING,
        CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION, CUBLASLT_ALGO_CONFIG_STAGES_ID,
        CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID, CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID}) {
    const bool narrow = attribute == CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID ||
                        attribute == CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID;
    uint32_t value = 0;
    check(cublasLtMatmulAlgoConfigGetAttribute(&algorithm, attribute, &value,
                                               narrow ? sizeof(uint16_t) : sizeof(uint32_t), nullptr),
          "querying an algorithm");
    name += fmt::format(" {}", value);
  }
  return name + (loop ? " and a loop" : "");
}

class Preference {
 public:
  explicit Preference(size_t alignment) {
    check(cublasLtMatmulPreferenceCreate(&preference_), "preparing a search");
    set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kMostWorkspace);
    set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE});
    for (const auto of :
         {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
          CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
      set(of, static_cast<uint32_t>(alignment));
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

}  // namespace

ProductDescription::ProductDescription(const MatrixProduct& product, const ProductOptions& options,
                                       Epilogue epilogue) {
  const bool tf32 = options.tf32 && options.operands == DType::f32;
  check(cublasLtMatmulDescCreate(&description_, tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F,
                                 CUDA_R_32F),
        "describing a product");
  set(CUBLASLT_MATMUL_DESC_TRANSA, int32_t{product.left.transposed ? CUBLAS_OP_T : CUBLAS_OP_N});
  set(CUBLASLT_MATMUL_DESC_TRANSB, int32_t{product.right.transposed ? CUBLAS_OP_T : CUBLAS_OP_N});
  set(CUBLASLT_MATMUL_DESC_EPILOGUE, named(epilogue));
  if (has_vector(epilogue)) set_vector(vector_to_come());
}

template <typename T>
void ProductDescription::set(cublasLtMatmulDescAttributes_t attribute, const T& value) {
  check(cublasLtMatmulDescSetAttribute(description_, attribute, &value, sizeof(value)),
        "describing a product");
}

MatrixLayout::MatrixLayout(const ColumnMajor& matrix, int64_t batch, DType dtype) {
  check(cublasLtMatrixLayoutCreate(&layout_, product_type(dtype), static_cast<uint64_t>(matrix.rows),
                                   static_cast<uint64_t>(matrix.columns), matrix.rows + matrix.gap),
        "describing a matrix");
  const auto set = [&](cublasLtMatrixLayoutAttribute_t attribute, const auto& value) {
    check(cublasLtMatrixLayoutSetAttribute(layout_, attribute, &value, sizeof(value)), "describing a matrix");
  };
  set(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, static_cast<int32_t>(batch));
  set(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, matrix.rows * matrix.columns);
}

Product::Product(Gpu& gpu, const MatrixProduct& product, const ProductOptions& options, EpilogueLoop loop)
    : gpu_(gpu),
      options_(options),
      loop_(std::move(loop)),
      fused_(product, options, options.epilogue),
      left_(product.left, product.batch, options.operands),
      right_(product.right, product.batch, options.operands),
      result_(product.result, product.batch, options.result),
      candidates_(words_of(product, options, static_cast<bool>(loop_))) {
  find_candidates(fused_, false);
  if (loop_) find_candidates(plain_.emplace(product, options, Epilogue::none), true);
  if (candidates_.empty()) throw run_error("{} has no algorithm on {}", candidates_.what(), gpu_.name());
}

void Product::find_candidates(ProductDescription& description, bool loop) {
  const Preference preference(options_.alignment);
  std::array<cublasLtMatmulHeuristicResult_t, kCandidates> proposals{};
  int found = 0;
  const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
      gpu_.products(), description.get(), left_.get(), right_.get(), result_.get(), result_.get(),
      preference.get(), kCandidates, proposals.data(), &found);
  // A search without result has a status of its own. For an epilogue that does not support these types
  // cuBLASLt may also report an invalid value; the loop then remains.
  if (status == CUBLAS_STATUS_NOT_SUPPORTED) return;
  if (status == CUBLAS_STATUS_INVALID_VALUE && loop_ && !loop) return;
  check(status, "searching for an algorithm");
  for (int i = 0; i < found; ++i) {
    const auto& proposal = proposals[static_cast<size_t>(i)];
    if (proposal.state == CUBLAS_STATUS_SUCCESS)
      candidates_.add({loop, proposal}, name_of(proposal.algo, loop), proposal.workspaceSize);
  }
}

void Product::choose(const ProductMemory& memory) {
  candidates_.choose(
      gpu_, [&](const Candidate& candidate) { return enqueue(candidate, memory) == CUBLAS_STATUS_SUCCESS; });
}

void Product::run(const ProductMemory& memory) { check(enqueue(candidates_.chosen(), memory), "a product"); }

cublasStatus_t Product::enqueue(const Candidate& candidate, const ProductMemory& memory) {
  const float one = 1;
  const float kept = options_.accumulate ? 1 : 0;
  ProductDescription& description = candidate.loop ? *plain_ : fused_;
  if (!candidate.loop && has_vector(options_.epilogue)) description.set_vector(memory.vector);
  const cublasStatus_t status =
      cublasLtMatmul(gpu_.products(), description.get(), &one, memory.b, left_.get(), memory.a, right_.get(),
                     &kept, memory.y, result_.get(), memory.y, result_.get(), &candidate.algorithm.algo,
                     memory.workspace, candidate.algorithm.workspaceSize, gpu_.stream());
  if (status == CUBLAS_STATUS_SUCCESS && candidate.loop) check(loop_(memory), "the epilogue of a product");
  return status;
}

}  // namespace telar::cuda
