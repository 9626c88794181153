#include <gtest/gtest.h>

#include <functional>

#include "support/sentences.h"
#include "telar/device/lowered_executable.h"
#include "telar/device/lowering_body.h"
#include "telar/graph/ops/accumulate.h"
#include "telar/graph/ops/activation.h"
#include "telar/graph/ops/arithmetic.h"
#include "telar/graph/ops/reshape.h"
#include "telar/graph/ops/stage.h"

namespace telar {
namespace {

/// A third device. It stores matrices by rows or by columns, and its steps are only names.
struct Matrix {
  TensorType type;
  bool by_columns = false;
  bool operator==(const Matrix&) const = default;
};

struct PaperTarget {
  using Layout = Matrix;
  using Work = std::string;
  static constexpr size_t kAlignment = 64;

  static Matrix plain(const TensorType& type) { return {type, false}; }
  static size_t bytes_of(const Matrix& matrix) { return static_cast<size_t>(matrix.type.bytes()); }
  static Matrix with_type(const Matrix& matrix, DType dtype) {
    return {{dtype, matrix.type.shape}, matrix.by_columns};
  }
  static bool may_replace(const Matrix& old, const Matrix& made) { return old == made; }
  static bool batch_is_outermost(const Matrix& matrix) { return !matrix.by_columns; }
  static Matrix for_batch(Matrix matrix, int64_t batch) {
    matrix.type.shape[0] = batch;
    return matrix;
  }
  static TensorLayout exported(const Matrix& matrix) {
    return {matrix.type.shape, bytes_of(matrix), matrix.by_columns ? "columns" : "rows", nullptr};
  }
  static Matrix imported(const TensorLayout& layout, const TensorType& type) {
    return {type, layout.format == "columns"};
  }
};

class PaperLowering;
using PaperKernel = std::function<void(PaperLowering&, const Node&)>;

class PaperLowering final : public GraphLowering<PaperTarget> {
 public:
  PaperLowering(const Graph& graph, const CompileOptions& options, PaperKernel kernel)
      : GraphLowering(graph, options), kernel_(std::move(kernel)) {}

  Matrix columns(ValueId value) const { return {type(value), true}; }
  void step(std::vector<RegionId> reads, std::vector<RegionId> writes, const std::string& name) {
    add_step(reads, writes, name);
  }
  void reorder(RegionId from, RegionId to) override { add_step({from}, {to}, "reorder").reorders = true; }

 private:
  void lower(const Node& node) override { kernel_(*this, node); }
  PaperKernel kernel_;
};

/// Element-wise operations work in the layout of their first input, and in place where they may. Results are
/// accumulated by a step unless they have been computed in their gradient.
void paper_kernel(PaperLowering& lowering, const Node& node) {
  if (node.op->effect() == Effect::accumulates) {
    if (lowering.written_directly(node.inputs[1])) return;
    const RegionId to = lowering.is_metric(node.inputs[0]) ? lowering.metric_region(node.inputs[0])
                                                           : lowering.gradient_region(node.inputs[0]);
    return lowering.step({lowering.region(node.inputs[1], lowering.layout_of(to))}, {to}, "accumulate");
  }
  if (node.op->effect() == Effect::delivers)
    return lowering.deliver(node.inputs[0], node.attributes.text("name"));
  const ValueId x = node.inputs[0];
  if (node.op->is_view()) {
    lowering.define_alias(node.outputs[0], lowering.plain_region(x),
                          PaperTarget::plain(lowering.type(node.outputs[0])));
    return;
  }
  std::vector<RegionId> reads;
  for (const ValueId input : node.inputs) reads.push_back(lowering.region(input, lowering.layout(x)));
  const RegionId y = lowering.define_in_place(node.outputs[0], x, lowering.layout(x));
  lowering.step(reads, {y}, std::string(node.op->name()));
}

class PaperExecutable final : public LoweredExecutable<PaperTarget> {
 public:
  explicit PaperExecutable(const Graph& graph, const CompileOptions& options = {},
                           const PaperKernel& kernel = paper_kernel)
      : LoweredExecutable(graph, options) {
    PaperLowering lowering(graph_, options, kernel);
    lower(lowering);
  }
  std::unique_ptr<Context> bind(const ArenaLayout&, const Bindings&) const override { return nullptr; }

  const std::vector<Region<Matrix>>& regions() const { return regions_; }
  const std::vector<Step<std::string>>& steps() const { return steps_; }
  const Region<Matrix>& region(RegionId id) const { return regions_[static_cast<size_t>(id)]; }
  /// "add relu reorder".
  std::string text() const {
    std::string text;
    for (const auto& step : steps_) text += (text.empty() ? "" : " ") + step.work;
    return text;
  }
};

const TensorType kMatrix{DType::f32, {8, 16}};  // 512 bytes

TEST(Lowering, ElementWiseOperationsOverwriteWhatNobodyReadsAgain) {
  GraphBuilder b;
  const ValueId x = b.input("x", kMatrix, true);
  const ValueId y = add(b, x, x);
  b.output("y", relu(b, tanh(b, y)));
  const PaperExecutable executable(b.build());
  EXPECT_EQ(executable.text(), "add tanh relu");
  EXPECT_EQ(executable.activation_bytes(), 512U);
}

TEST(Lowering, ValuesThatAreReadLaterAreNotOverwritten) {
  GraphBuilder b;
  const ValueId x = b.input("x", kMatrix, true);
  const ValueId y = add(b, x, x);
  const ValueId z = relu(b, y);
  b.output("sum", add(b, z, y));
  EXPECT_EQ(PaperExecutable(b.build()).activation_bytes(), 2 * 512U);
}

TEST(Lowering, AnInputIsNotOverwritten) {
  GraphBuilder b;
  b.output("y", relu(b, b.input("x", kMatrix, true)));
  const PaperExecutable executable(b.build());
  EXPECT_EQ(executable.activation_bytes(), 512U);
}

TEST(Lowering, AValueIsConvertedOnceForAllReadersOfOneLayout) {
  GraphBuilder b;
  const ValueId x = b.input("x", kMatrix, true);
  b.output("a", relu(b, x));
  b.output("b", tanh(b, x));
  const PaperExecutable executable(b.build(), {}, [](PaperLowering& lowering, const Node& node) {
    const ValueId value = node.inputs[0];
    const RegionId from = lowering.region(value, lowering.columns(value));
    lowering.step({from}, {lowering.define(node.outputs[0], lowering.columns(value))}, "kernel");
  });
  EXPECT_EQ(executable.text(), "reorder kernel kernel");
}

/// Computes x by columns, so that every reshape of it needs a copy by rows.
void columns_first(PaperLowering& lowering, const Node& node) {
  if (node.op->name() != "mul") return paper_kernel(lowering, node);
  const RegionId from = lowering.region(node.inputs[0]);
  lowering.step({from}, {lowering.define(node.outputs[0], lowering.columns(node.outputs[0]))}, "mul");
}

TEST(Lowering, ACopyInAnotherLayoutIsNotOverwrittenWhileItHasReaders) {
  GraphBuilder b;
  const ValueId x = b.input("x", kMatrix, true);
  const ValueId y = mul(b, x, x);
  const ValueId changed = relu(b, reshape(b, y, {0, 4, 4}));
  b.output("a", changed);
  b.output("b", reshape(b, y, {0, 2, 8}));  // reads the copy, after the ReLU
  const PaperExecutable executable(b.build(), {}, columns_first);
  ASSERT_EQ(executable.text(), "mul reorder relu");
  const auto& relu_step = executable.steps()[2];
  EXPECT_NE(executable.region(relu_step.regions[0]).offset, executable.region(relu_step.regions[1]).offset);
}

TEST(Lowering, AResultForAGradientIsComputedInItAndDecidesTheParametersLayout) {
  GraphBuilder b;
  const ValueId x = b.input("x", kMatrix, true);
  b.parameter("w", kMatrix);
  accumulate(b, b.gradient("w", kMatrix), mul(b, x, x));
  const Graph graph = b.build();
  const PaperExecutable writes(graph, {}, columns_first);
  EXPECT_EQ(writes.text(), "mul");
  EXPECT_EQ(writes.region(writes.steps()[0].regions[1]).place, Place::gradient);
  EXPECT_EQ(writes.parameter_layouts()[0].second.format, "columns");
  const PaperExecutable adds(graph, {.accumulation = Accumulation::add}, columns_first);
  EXPECT_EQ(adds.text(), "mul reorder accumulate");
}

TEST(Lowering, ParametersKeepTheLayoutsThatWereAgreedOn) {
  GraphBuilder b;
  b.output("y", relu(b, b.parameter("w", kMatrix)));
  const Graph graph = b.build();
  EXPECT_EQ(PaperExecutable(graph).parameter_layouts()[0].second.format, "rows");
  const ArenaLayout agreed = ArenaLayout::pack({{"w", {kMatrix.shape, 512, "columns", nullptr}}});
  const PaperExecutable executable(graph, {.parameters = &agreed});
  EXPECT_EQ(executable.parameter_layouts()[0].second.format, "columns");
}

TEST(Lowering, DeliveredValuesHaveTheAgreedLayoutForTheirBatch) {
  GraphBuilder b;
  const ValueId x = b.input("%1", kMatrix, true);
  deliver(b, relu(b, x), "%2");
  const Graph graph = b.build();
  const PaperExecutable alone(graph);
  EXPECT_EQ(alone.delivered_layouts().at("%1").format, "rows");
  EXPECT_EQ(alone.delivered_layouts().at("%2").format, "rows");
  EXPECT_EQ(alone.text(), "relu");
  const std::map<std::string, TensorLayout> agreed{{"%2", {{32, 16}, 2048, "columns", nullptr}}};
  const PaperExecutable second(graph, {.delivered = &agreed});
  EXPECT_EQ(second.text(), "relu reorder");
  const Region<Matrix>& delivered = second.region(second.steps()[1].regions[1]);
  EXPECT_EQ(delivered.place, Place::delivered);
  EXPECT_EQ(delivered.layout, (Matrix{kMatrix, true}));
}

TEST(Lowering, PreparedParametersAreConvertedOutsideTheRuns) {
  GraphBuilder b;
  const ValueId w = b.parameter("w", kMatrix);
  b.output("y", relu(b, w));
  const ArenaLayout agreed = ArenaLayout::pack({{"w", {kMatrix.shape, 512, "columns", nullptr}}});
  const PaperKernel by_rows = [](PaperLowering& lowering, const Node& node) {
    lowering.step({lowering.plain_region(node.inputs[0])}, {lowering.define_plain(node.outputs[0])},
                  "kernel");
  };
  const PaperExecutable executable(b.build(), {.parameters = &agreed, .prepare_parameters = true}, by_rows);
  ASSERT_EQ(executable.text(), "reorder kernel");
  EXPECT_TRUE(executable.steps()[0].prepares);
  EXPECT_EQ(executable.prepared_bytes(), 512U);
  EXPECT_EQ(executable.activation_bytes(), 512U);
}

TEST(Lowering, AValueThatNoKernelHasDefinedIsAnError) {
  GraphBuilder b;
  b.output("y", relu(b, tanh(b, b.input("x", kMatrix, true))));
  const PaperKernel forgets = [](PaperLowering& lowering, const Node& node) {
    lowering.region(node.inputs[0]);
  };
  test::expect_error([&] { PaperExecutable(b.graph(), {}, forgets); },
                     {"operation 'relu' reads a value that no operation has computed"}, Error::Kind::run);
}

}  // namespace
}  // namespace telar
