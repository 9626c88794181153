#pragma once

#include <optional>

#include "telar/device/cuda/lowering.h"
#include "telar/device/cuda/products.h"

namespace telar::cuda {

/// The operands of a product y = a · b, row-major.
struct ProductRegions {
  RegionId a;
  RegionId b;
  RegionId y;
  RegionId vector = -1;  ///< of the epilogue; −1 without one
};

/// Adds a step that computes the product with its epilogue, or followed by the loop instead, which may use
/// `loop_workspace` bytes of the workspace. Lowering::tf32 decides about TF32. Throws Error (run) when there
/// is no algorithm.
void add_product(Lowering& lowering, const MatrixProduct& product, ProductOptions options,
                 const ProductRegions& regions, const EpilogueLoop& loop = {}, size_t loop_workspace = 0);

/// Rows that a layer read, [rows, inputs], and gradients of its results, [rows, outputs]; in plain layout, of
/// one type.
struct WeightedRows {
  RegionId x;
  RegionId dy;
  DType dtype;
  int64_t rows;
  int64_t inputs;
  int64_t outputs;
};

/// Adds a step that computes dw = dyᵀ · x, [outputs, inputs], and, if `db` is given, db = Σ dy over the rows,
/// [outputs]; both f32.
void add_weights_gradient(Lowering& lowering, const WeightedRows& of, RegionId dw,
                          std::optional<RegionId> db);

}  // namespace telar::cuda
