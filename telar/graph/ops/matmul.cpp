#include "telar/graph/ops/matmul.h"

#include <algorithm>

#include "telar/core/error.h"
#include "telar/graph/autodiff.h"
#include "telar/graph/ops/axis.h"

namespace telar {

namespace {

class MatmulOp final : public Op {
 public:
  std::string_view name() const override { return "matmul"; }
  bool bf16() const override { return true; }

  std::vector<TensorType> infer(const std::vector<TensorType>& inputs,
                                const Attributes& attributes) const override {
    const Shape& a = inputs[0].shape;
    const Shape& b = inputs[1].shape;
    check_floating(name(), inputs[0]);
    if (inputs[0].dtype != inputs[1].dtype) {
      throw user_error("matmul: operands are {} and {}; both must be of one type", inputs[0].str(),
                       inputs[1].str());
    }
    if (a.rank() != b.rank() || a.rank() < 2 || a.rank() > 4 ||
        !std::equal(a.begin(), a.end() - 2, b.begin())) {
      throw user_error(
          "matmul: operands are {} and {}; they need the same rank, 2 to 4, and equal extents before the last two",
          a.str(), b.str());
    }
    const bool transpose_a = attributes.flag("transpose_a");
    const bool transpose_b = attributes.flag("transpose_b");
    const size_t row = a.rank() - 2;
    const size_t column = a.rank() - 1;
    if (a[transpose_a ? row : column] != b[transpose_b ? column : row]) {
      throw user_error("matmul: {}{} · {}{} does not fit: {} columns meet {} rows", a.str(),
                       transpose_a ? "ᵀ" : "", b.str(), transpose_b ? "ᵀ" : "", a[transpose_a ? row : column],
                       b[transpose_b ? column : row]);
    }
    Shape y = a;
    y[row] = a[transpose_a ? column : row];
    y[column] = b[transpose_b ? row : column];
    return {{inputs[0].dtype, y}};
  }

  // With A = op(a), B = op(b): dA = dy · Bᵀ and dB = Aᵀ · dy, transposed where the operand was.
  void gradient(GradientContext& context) const override {
    GraphBuilder& builder = context.builder();
    const bool transpose_a = context.attributes().flag("transpose_a");
    const bool transpose_b = context.attributes().flag("transpose_b");
    const ValueId a = context.input(0);
    const ValueId b = context.input(1);
    const ValueId dy = context.output_gradient(0);
    if (context.needs(0)) {
      context.set(0, transpose_a ? matmul(builder, b, dy, transpose_b, true)
                                 : matmul(builder, dy, b, false, !transpose_b));
    }
    if (context.needs(1)) {
      context.set(1, transpose_b ? matmul(builder, dy, a, true, transpose_a)
                                 : matmul(builder, a, dy, !transpose_a, false));
    }
  }

  int64_t multiply_adds(const std::vector<TensorType>& inputs, const std::vector<TensorType>& outputs,
                        const Attributes& attributes) const override {
    const Shape& a = inputs[0].shape;
    return product_of({outputs[0].shape.elements(), a[a.rank() - (attributes.flag("transpose_a") ? 2 : 1)]});
  }
};

const MatmulOp kMatmul;

}  // namespace

ValueId matmul(GraphBuilder& builder, ValueId a, ValueId b, bool transpose_a, bool transpose_b) {
  return builder.add1(kMatmul, {a, b}, {{"transpose_a", transpose_a}, {"transpose_b", transpose_b}});
}

}  // namespace telar
