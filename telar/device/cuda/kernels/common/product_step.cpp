#include "telar/device/cuda/kernels/common/product_step.h"

#include <algorithm>
#include <memory>

#include "telar/device/cuda/loops/channel_sums.h"

namespace telar::cuda {

void add_product(Lowering& lowering, const MatrixProduct& product, ProductOptions options,
                 const ProductRegions& regions, const EpilogueLoop& loop, size_t loop_workspace) {
  options.tf32 = lowering.tf32();
  const auto made = std::make_shared<Product>(lowering.gpu(), product, options, loop);
  const bool written = options.epilogue == Epilogue::bias_gradient;
  std::vector<RegionId> reads{regions.a, regions.b};
  std::vector<RegionId> writes{regions.y, lowering.temporary(std::max(made->workspace(), loop_workspace))};
  if (regions.vector >= 0) (written ? writes : reads).push_back(regions.vector);
  // Pointers: a, b, the vector if it is read, y, workspace, the vector if it is written.
  const size_t y = reads.size();
  std::optional<size_t> vector;
  if (regions.vector >= 0) vector = written ? y + 2 : y - 1;
  const auto memory = [y, vector](const Pointers& p) {
    return ProductMemory{p[0], p[1], p[y], vector ? p[*vector] : nullptr, p[y + 1]};
  };
  lowering.add(
      reads, writes, [=](const Pointers& p) { made->run(memory(p)); },
      [=](const Pointers& p) { made->choose(memory(p)); });
}

void add_weights_gradient(Lowering& lowering, const WeightedRows& of, RegionId dw,
                          std::optional<RegionId> db) {
  const MatrixProduct product =
      matrix_product({of.rows, of.outputs}, true, {of.rows, of.inputs}, false, {of.outputs, of.inputs});
  ProductOptions options{.operands = of.dtype, .result = DType::f32};
  if (!db) {
    add_product(lowering, product, options, {of.dy, of.x, dw});
    return;
  }
  options.epilogue = Epilogue::bias_gradient;
  constexpr int64_t kPixels = 1;  // a matrix [rows, outputs] is `rows` images of one pixel
  const auto sums = [=, stream = lowering.stream()](const ProductMemory& m) {
    return sum_channels(m.a, of.dtype, of.rows, of.outputs, kPixels, true, static_cast<float*>(m.workspace),
                        static_cast<float*>(m.vector), stream);
  };
  const auto pieces = static_cast<size_t>(channel_sum_pieces(of.rows, of.outputs, kPixels));
  add_product(lowering, product, options, {of.dy, of.x, dw, *db}, sums, pieces * sizeof(float));
}

}  // namespace telar::cuda
