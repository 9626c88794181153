#include "telar/device/cuda/loops/math.h"

#include "telar/device/cuda/check.h"
#include "telar/device/cuda/kernels.h"

namespace telar::cuda {

namespace {

using Loop = std::function<cudaError_t(const float* x, float* y, int64_t count, cudaStream_t stream)>;

void lower_math(Lowering& lowering, const Node& node, const Loop& loop) {
  const ValueId x = node.inputs[0];
  const RegionId from = lowering.region(x);
  const RegionId to = lowering.define_in_place(node.outputs[0], x);
  lowering.add({from}, {to},
               [loop, count = lowering.shape(x).elements(), stream = lowering.stream()](const Pointers& p) {
                 check(loop(p.get<const float>(0), p.get<float>(1), count, stream),
                       "a function of each element");
               });
}

float real(const Node& node, const char* name) { return static_cast<float>(node.attributes.real(name)); }

}  // namespace

void register_math(Kernels& kernels) {
  kernels.add("exp", [](Lowering& lowering, const Node& node) { lower_math(lowering, node, exponentials); });
  kernels.add("log", [](Lowering& lowering, const Node& node) { lower_math(lowering, node, logarithms); });
  kernels.add("sin", [](Lowering& lowering, const Node& node) { lower_math(lowering, node, sines); });
  kernels.add("cos", [](Lowering& lowering, const Node& node) { lower_math(lowering, node, cosines); });
  kernels.add("atan", [](Lowering& lowering, const Node& node) { lower_math(lowering, node, arctangents); });
  kernels.add("erf",
              [](Lowering& lowering, const Node& node) { lower_math(lowering, node, error_functions); });
  kernels.add("log1p", [](Lowering& lowering, const Node& node) {
    lower_math(lowering, node, logarithms_of_one_more);
  });
  kernels.add("expm1", [](Lowering& lowering, const Node& node) {
    lower_math(lowering, node, exponentials_less_one);
  });
  kernels.add("floor", [](Lowering& lowering, const Node& node) { lower_math(lowering, node, floors); });
  kernels.add("round", [](Lowering& lowering, const Node& node) { lower_math(lowering, node, rounded); });
  kernels.add("pow", [](Lowering& lowering, const Node& node) {
    lower_math(lowering, node, [exponent = real(node, "exponent")](auto x, auto y, auto count, auto stream) {
      return powers(x, exponent, y, count, stream);
    });
  });
  kernels.add("clamp", [](Lowering& lowering, const Node& node) {
    lower_math(
        lowering, node,
        [least = real(node, "least"), most = real(node, "most")](auto x, auto y, auto count, auto stream) {
          return clamped(x, least, most, y, count, stream);
        });
  });
  kernels.add("within", [](Lowering& lowering, const Node& node) {
    lower_math(
        lowering, node,
        [least = real(node, "least"), most = real(node, "most")](auto x, auto y, auto count, auto stream) {
          return are_within(x, least, most, y, count, stream);
        });
  });
}

}  // namespace telar::cuda
