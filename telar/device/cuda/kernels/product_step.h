#pragma once

#include <optional>

#include "telar/device/cuda/lowering.h"
#include "telar/device/cuda/products.h"

namespace telar::cuda {

/// Where the operands of a product y = a · b lie, row-major.
struct ProductRegions {
  RegionId a;
  RegionId b;
  RegionId y;
  RegionId vector = -1;  ///< of the epilogue; −1 where it has none
};

/// Adds a step: the product, with its epilogue, or with the loop in its place, which may use `loop_workspace`
/// bytes of the workspace. Whether it may use TF32 is the lowering's to say. Throws Error (run) when it
/// cannot be computed.
void add_product(Lowering& lowering, const MatrixProduct& product, ProductOptions options,
                 const ProductRegions& regions, const EpilogueLoop& loop = {}, size_t loop_workspace = 0);

/// Rows that a layer read, [rows, inputs], and gradients of what it made of them, [rows, outputs]; plain, of
/// one type.
struct WeightedRows {
  RegionId x;
  RegionId dy;
  DType dtype;
  int64_t rows;
  int64_t inputs;
  int64_t outputs;
};

/// Adds a step: dw = dyᵀ · x, [outputs, inputs], and, where there is one, db = Σ dy over the rows, [outputs];
/// both f32.
void add_weights_gradient(Lowering& lowering, const WeightedRows& of, RegionId dw,
                          std::optional<RegionId> db);

}  // namespace telar::cuda
