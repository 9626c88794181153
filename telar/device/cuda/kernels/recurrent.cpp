#include <memory>
#include <numeric>

#include "telar/device/cuda/check.h"
#include "telar/device/cuda/kernels.h"
#include "telar/device/cuda/kernels/common/product_step.h"
#include "telar/device/cuda/kernels/common/reorder.h"
#include "telar/device/cuda/loops/copies.h"
#include "telar/device/cuda/loops/recurrent.h"

// LSTM and GRU. One product computes the input contribution of all steps. Each step is then a product with
// the recurrent weights and a loop of ours. The backward pass works in the same way; each weight gradient is
// one product over all steps. Operands have x's type; sums and the values carried from step to step are f32.
// Samples are stored one after the other, as in x, so the rows of a step are T rows apart. cuBLASLt reads and
// writes them in place. These are many small calls: expensive when each is put on the stream alone, cheap in
// a CUDA graph.
//
// cuDNN's layers are not used. They need the weights, and their gradients, packed in a block of their own,
// which every run would copy from and to the arenas. They also need the lengths on the host.

namespace telar::cuda {

namespace {

/// Inputs of the graph's operations (telar/graph/ops/recurrent.cpp).
enum Input : size_t { kX, kWeightIh, kWeightHh, kBiasIh, kBiasHh, kLengths, kHiddenBefore, kCellBefore };

/// What the forward pass keeps for the backward one: the gates after activation, h before each step in x's
/// type, and an LSTM's cells.
enum Saved : size_t { kGates, kBefore, kCells };

struct Layer {
  bool lstm;
  DType dtype;
  int64_t inputs;
  RecurrentExtents extents;

  size_t states() const { return lstm ? 2 : 1; }
  int64_t rows() const { return extents.samples * extents.steps; }
  int64_t hidden() const { return extents.hidden; }
  int64_t sums() const {
    return (lstm ? 4 : 3) * extents.hidden;
  }                                                    ///< numbers in a row from which its gates are computed
  int64_t kept() const { return 4 * extents.hidden; }  ///< numbers in a row that the backward pass reads
  size_t size() const { return size_of(dtype); }
  size_t bytes(int64_t numbers) const { return static_cast<size_t>(numbers) * size(); }
};

Layer layer_of(const Lowering& lowering, const Node& node) {
  const Shape& x = lowering.shape(node.inputs[kX]);
  return {node.op->name().starts_with("lstm"),
          lowering.dtype(node.inputs[kX]),
          x[2],
          {x[0], x[1], lowering.shape(node.inputs[kWeightHh])[1]}};
}

RegionId f32_temporary(Lowering& lowering, int64_t numbers) {
  return lowering.temporary(static_cast<size_t>(numbers) * sizeof(float));
}

RegionId region_or_none(Lowering& lowering, ValueId value) {
  return value == kNoValue ? -1 : lowering.plain_region(value);
}

/// An LSTM's cell before the first step.
RegionId initial_cell(Lowering& lowering, const Node& node, const Layer& of) {
  return of.lstm ? region_or_none(lowering, node.inputs[kCellBefore]) : -1;
}

/// Numbers the regions that a step reads and writes. An absent region (−1) has a null pointer.
class Operands {
 public:
  Operands(const std::vector<RegionId>& reads, const std::vector<RegionId>& writes) {
    for (const RegionId region : reads) add(region, reads_);
    for (const RegionId region : writes) add(region, writes_);
  }
  const std::vector<RegionId>& reads() const { return reads_; }
  const std::vector<RegionId>& writes() const { return writes_; }
  template <typename T = std::byte>
  T* get(const Pointers& p, size_t i) const {
    return places_[i] < 0 ? nullptr : p.get<T>(static_cast<size_t>(places_[i]));
  }

 private:
  void add(RegionId region, std::vector<RegionId>& into) {
    places_.push_back(region < 0 ? -1 : static_cast<int>(reads_.size() + writes_.size()));
    if (region >= 0) into.push_back(region);
  }
  std::vector<RegionId> reads_;
  std::vector<RegionId> writes_;
  std::vector<int> places_;
};

/// The largest power of two, at most kProductAlignment, that divides both.
size_t common_alignment(size_t a, size_t b) { return std::gcd(std::gcd(a, b), kProductAlignment); }

/// The product of a step with the recurrent weights. Its rows are T rows apart.
struct StepProduct {
  std::shared_ptr<Product> product;
  size_t from;  ///< bytes from one step's operand to the next one's
  size_t to;    ///< the same for its result; 0: all steps share one

  ProductMemory memory(int64_t step, const std::byte* rows, const std::byte* weights, std::byte* result,
                       std::byte* workspace) const {
    const auto at = static_cast<size_t>(step);
    return {rows + at * from, weights, result + at * to, nullptr, workspace};
  }
};

/// [N, H] · W_hhᵀ: from the state before a step to its sums. For an LSTM they are added to the gates' memory,
/// for a GRU they are stored separately.
StepProduct forward_product(const Lowering& lowering, const Layer& of) {
  const int64_t samples = of.extents.samples;
  MatrixProduct product =
      matrix_product({samples, of.hidden()}, false, {of.sums(), of.hidden()}, true, {samples, of.sums()});
  product.right.gap = (of.extents.steps - 1) * of.hidden();
  if (of.lstm) product.result.gap = (of.extents.steps - 1) * of.kept();
  const size_t from = of.bytes(of.hidden());
  const size_t to = of.lstm ? static_cast<size_t>(of.kept()) * sizeof(float) : 0;
  const ProductOptions options{.operands = of.dtype,
                               .result = DType::f32,
                               .accumulate = of.lstm,
                               .tf32 = lowering.tf32(),
                               .alignment = common_alignment(from, to)};
  return {std::make_shared<Product>(lowering.gpu(), product, options), from, to};
}

/// [N, sums] · W_hh: from the gradients of a step's sums to that of the state before it. For a GRU the result
/// is added to that state's gradient.
StepProduct backward_product(const Lowering& lowering, const Layer& of) {
  const int64_t samples = of.extents.samples;
  MatrixProduct product =
      matrix_product({samples, of.sums()}, false, {of.sums(), of.hidden()}, false, {samples, of.hidden()});
  product.right.gap = (of.extents.steps - 1) * of.sums();
  const size_t from = of.bytes(of.sums());
  const ProductOptions options{.operands = of.dtype,
                               .result = DType::f32,
                               .accumulate = !of.lstm,
                               .tf32 = lowering.tf32(),
                               .alignment = common_alignment(from, 0)};
  return {std::make_shared<Product>(lowering.gpu(), product, options), from, 0};
}

/// x · W_ihᵀ of all steps, written to the memory of the gates.
void add_inputs_product(Lowering& lowering, const Node& node, const Layer& of, RegionId gates) {
  MatrixProduct product =
      matrix_product({of.rows(), of.inputs}, false, {of.sums(), of.inputs}, true, {of.rows(), of.sums()});
  product.result.gap = of.kept() - of.sums();
  const RegionId x = lowering.plain_region(node.inputs[kX]);
  const RegionId weights = lowering.plain_region(node.inputs[kWeightIh]);
  add_product(lowering, product, {.operands = of.dtype, .result = DType::f32}, {x, weights, gates});
}

/// The forward steps of a layer, enqueued together.
struct ForwardSteps {
  /// Read: W_hh, biases, lengths, initial states. Carried: the cells of all steps (LSTM), or h in f32 (GRU).
  /// Last: the cell's result, or a step's recurrent sums.
  enum Operand : size_t {
    kWeights,
    kIh,
    kHh,
    kLimits,
    kInitial,
    kInitialCell,
    kGatesOf,
    kBeforeOf,
    kY,
    kHidden,
    kCarried,
    kLast,
    kSpace
  };

  Layer of;
  Operands operands;
  StepProduct product;
  cudaStream_t stream;

  ProductMemory product_memory(const Pointers& p, int64_t step) const {
    return product.memory(step, operands.get(p, kBeforeOf), operands.get(p, kWeights),
                          operands.get(p, of.lstm ? kGatesOf : kLast), operands.get(p, kSpace));
  }
  void run(const Pointers& p) const {
    const std::byte* initial = operands.get(p, kInitial);
    const bool begun = initial != nullptr;
    const RecurrentForward layer{of.extents,
                                 operands.get<const int32_t>(p, kLimits),
                                 operands.get<const float>(p, kIh),
                                 operands.get<const float>(p, kHh),
                                 operands.get<float>(p, kGatesOf),
                                 operands.get(p, kBeforeOf),
                                 operands.get(p, kY),
                                 operands.get(p, kHidden),
                                 begun};
    if (begun) {
      const RowPieces rows{of.extents.samples, of.hidden(), of.hidden(), of.extents.steps * of.hidden()};
      check(copy_pieces(rows, initial, 0, operands.get(p, kBeforeOf), 0, of.dtype, stream),
            "copying the initial state of a recurrent layer");
    }
    auto* carried = operands.get<float>(p, kCarried);
    auto* last = operands.get<float>(p, kLast);
    for (int64_t t = 0; t < of.extents.steps; ++t) {
      const bool remembers = t > 0 || begun;
      if (remembers) product.product->run(product_memory(p, t));
      check(of.lstm ? lstm_step(layer, operands.get(p, kInitialCell), carried, last, t, of.dtype, stream)
                    : gru_step(layer, remembers ? last : nullptr, carried, t, of.dtype, stream),
            "a step of a recurrent layer");
    }
  }
};

/// cell: the LSTM's result; no value for a GRU.
void lower_forward(Lowering& lowering, const Node& node, ValueId cell, ValueId workspace) {
  const Layer of = layer_of(lowering, node);
  const int64_t samples = of.extents.samples;
  const RegionId gates = f32_temporary(lowering, of.rows() * of.kept());
  add_inputs_product(lowering, node, of, gates);

  const StepProduct product = forward_product(lowering, of);
  const RegionId before = lowering.temporary(of.bytes(of.rows() * of.hidden()));
  const RegionId carried = f32_temporary(lowering, (of.lstm ? of.rows() : samples) * of.hidden());
  const RegionId last = of.lstm ? lowering.define_plain(cell) : f32_temporary(lowering, samples * of.sums());
  std::vector<RegionId> reads;
  for (const Input input : {kWeightHh, kBiasIh, kBiasHh, kLengths, kHiddenBefore})
    reads.push_back(region_or_none(lowering, node.inputs[input]));
  reads.push_back(initial_cell(lowering, node, of));
  const Operands operands(
      reads, {gates, before, lowering.define_plain(node.outputs[0]), lowering.define_plain(node.outputs[1]),
              carried, last, lowering.temporary(product.product->workspace())});
  const ForwardSteps steps{of, operands, product, lowering.stream()};
  lowering.add(
      operands.reads(), operands.writes(), [steps](const Pointers& p) { steps.run(p); },
      [steps](const Pointers& p) { steps.product.product->choose(steps.product_memory(p, 0)); });
  lowering.attach(workspace, {gates, before, carried});
}

/// The backward steps of a layer.
struct BackwardSteps {
  /// Read: W_hh, lengths, the initial cell, what the forward pass kept (Saved), and the gradients of y,
  /// hidden and cell.
  /// Written: the gradients of the sums, of the recurrent sums of a GRU (an LSTM's are the same), and of a
  /// step's h and c.
  enum Operand : size_t {
    kWeights,
    kLimits,
    kInitialCell,
    kGatesOf,
    kBeforeOf,
    kCarried,
    kDy,
    kDhidden,
    kDcell,
    kDsums,
    kDrecurrent,
    kDstate,
    kDc,
    kSpace
  };

  Layer of;
  Operands operands;
  StepProduct product;
  cudaStream_t stream;
  bool to_initial;  ///< the gradient of the initial h is used

  ProductMemory product_memory(const Pointers& p, int64_t step) const {
    return product.memory(step, operands.get(p, of.lstm ? kDsums : kDrecurrent), operands.get(p, kWeights),
                          operands.get(p, kDstate), operands.get(p, kSpace));
  }
  void run(const Pointers& p) const {
    const RecurrentBackward layer{of.extents,
                                  operands.get<const int32_t>(p, kLimits),
                                  operands.get<const float>(p, kGatesOf),
                                  operands.get(p, kDy),
                                  operands.get(p, kDhidden),
                                  operands.get<float>(p, kDstate),
                                  operands.get(p, kDsums)};
    for (int64_t t = of.extents.steps - 1; t >= 0; --t) {
      check(of.lstm ? lstm_step_backward(layer, operands.get(p, kInitialCell),
                                         operands.get<const float>(p, kCarried), operands.get(p, kDcell),
                                         operands.get<float>(p, kDc), t, of.dtype, stream)
                    : gru_step_backward(layer, operands.get(p, kBeforeOf), operands.get(p, kDrecurrent), t,
                                        of.dtype, stream),
            "a step of a recurrent layer's gradient");
      if (t > 0 || to_initial) product.product->run(product_memory(p, t));
    }
  }
};

/// Gradients of the sums from which a layer's gates are computed, [N, T, sums]: of the input contribution and
/// of the recurrent contribution. And f32 [N, H], of the states before the first step: h, if its gradient is
/// used, and an LSTM's c.
struct SumsGradients {
  RegionId inputs;
  RegionId recurrent;
  RegionId hidden;
  RegionId cell;
};

SumsGradients add_backward_steps(Lowering& lowering, const Node& node, const Layer& of,
                                 const std::vector<RegionId>& saved, const ValueId* gradients) {
  const StepProduct product = backward_product(lowering, of);
  const size_t sums = of.bytes(of.rows() * of.sums());
  const int64_t state = of.extents.samples * of.hidden();
  const RegionId dsums = lowering.temporary(sums);
  const RegionId drecurrent = of.lstm ? -1 : lowering.temporary(sums);
  const std::vector<RegionId> reads{region_or_none(lowering, node.inputs[kWeightHh]),
                                    region_or_none(lowering, node.inputs[kLengths]),
                                    initial_cell(lowering, node, of),
                                    saved[kGates],
                                    saved[kBefore],
                                    of.lstm ? saved[kCells] : -1,
                                    region_or_none(lowering, gradients[0]),
                                    region_or_none(lowering, gradients[1]),
                                    of.lstm ? region_or_none(lowering, gradients[2]) : -1};
  const RegionId dstate = f32_temporary(lowering, state);
  const RegionId dcell = of.lstm ? f32_temporary(lowering, state) : -1;
  const Operands operands(
      reads, {dsums, drecurrent, dstate, dcell, lowering.temporary(product.product->workspace())});
  const BackwardSteps steps{of, operands, product, lowering.stream(), lowering.used(node.outputs[5])};
  lowering.add(
      operands.reads(), operands.writes(), [steps](const Pointers& p) { steps.run(p); },
      [steps](const Pointers& p) { steps.product.product->choose(steps.product_memory(p, 0)); });
  return {dsums, of.lstm ? dsums : drecurrent, dstate, dcell};
}

/// The gradient of an initial state, if an operation reads it.
void add_initial_gradient(Lowering& lowering, RegionId from, ValueId gradient) {
  if (!lowering.used(gradient)) return;
  const TensorType f32{DType::f32, lowering.shape(gradient)};
  lowering.add({from}, {lowering.define_plain(gradient)},
               conversion(lowering.gpu(), f32, lowering.dtype(gradient)));
}

/// Gradients of weights and of their bias, if an operation reads them.
void add_parameter_gradients(Lowering& lowering, const WeightedRows& rows, ValueId dw, ValueId db) {
  if (!lowering.used(dw) && !lowering.used(db)) return;
  const RegionId weights = lowering.define_plain(dw);
  std::optional<RegionId> bias;
  if (lowering.used(db)) bias = lowering.define_plain(db);
  add_weights_gradient(lowering, rows, weights, bias);
}

void lower_backward(Lowering& lowering, const Node& node) {
  const Layer of = layer_of(lowering, node);
  const ValueId* outputs = &node.inputs[kHiddenBefore + of.states()];  // of the forward pass
  const auto& saved = lowering.attached(outputs[1 + of.states()]);
  const RegionId x = lowering.plain_region(node.inputs[kX]);
  const SumsGradients sums = add_backward_steps(lowering, node, of, saved, &outputs[2 + of.states()]);
  const ValueId dx = node.outputs[0];
  if (lowering.used(dx)) {
    const RegionId weights = lowering.plain_region(node.inputs[kWeightIh]);
    add_product(
        lowering,
        matrix_product({of.rows(), of.sums()}, false, {of.sums(), of.inputs}, false, {of.rows(), of.inputs}),
        {.operands = of.dtype, .result = of.dtype}, {sums.inputs, weights, lowering.define_plain(dx)});
  }
  add_parameter_gradients(lowering, {x, sums.inputs, of.dtype, of.rows(), of.inputs, of.sums()},
                          node.outputs[1], node.outputs[3]);
  add_parameter_gradients(lowering,
                          {saved[kBefore], sums.recurrent, of.dtype, of.rows(), of.hidden(), of.sums()},
                          node.outputs[2], node.outputs[4]);
  add_initial_gradient(lowering, sums.hidden, node.outputs[5]);
  if (of.lstm) add_initial_gradient(lowering, sums.cell, node.outputs[6]);
}

void lower_lstm(Lowering& lowering, const Node& node) {
  lower_forward(lowering, node, node.outputs[2], node.outputs[3]);
}

void lower_gru(Lowering& lowering, const Node& node) {
  lower_forward(lowering, node, kNoValue, node.outputs[2]);
}

void lower_lstm_backward(Lowering& lowering, const Node& node) { lower_backward(lowering, node); }

void lower_gru_backward(Lowering& lowering, const Node& node) { lower_backward(lowering, node); }

}  // namespace

void register_recurrent(Kernels& kernels) {
  kernels.add("gru", lower_gru);
  kernels.add("gru_backward", lower_gru_backward);
  kernels.add("lstm", lower_lstm);
  kernels.add("lstm_backward", lower_lstm_backward);
}

}  // namespace telar::cuda
