#include <algorithm>
#include <cmath>

#include "telar/device/cpu/kernels.h"
#include "telar/device/cpu/kernels/common/logarithm.h"
#include "telar/device/cpu/parallel.h"
#include "telar/device/cpu/primitives.h"

namespace telar::cpu {

namespace {

constexpr int64_t kComparisonsAThread = 1 << 14;
constexpr int64_t kLogarithmsAThread = 1 << 12;
constexpr int64_t kFunctionsAThread = 1 << 10;

float real(const Node& node, const char* name) { return static_cast<float>(node.attributes.real(name)); }

void lower_function(Lowering& lowering, const Node& node, dnnl::algorithm algorithm, float alpha,
                    float beta) {
  const ValueId x = node.inputs[0];
  const auto pd = eltwise_forward(algorithm, lowering.layout(x), alpha, beta);
  const RegionId from = lowering.region(x);
  lowering.define_in_place(node.outputs[0], x);
  lowering.primitive(pd, dnnl::eltwise_forward(pd),
                     {{DNNL_ARG_SRC, from}, {DNNL_ARG_DST, lowering.region(node.outputs[0])}});
}

/// A loop of our own: oneDNN's logarithm is wrong by up to 4e-6, a relative error of 1e-4 near 1, where
/// losses are.
void lower_log(Lowering& lowering, const Node& node) {
  const int64_t count = lowering.shape(node.inputs[0]).elements();
  lowering.function({lowering.plain_region(node.inputs[0])}, {lowering.define_plain(node.outputs[0])},
                    [=](const Pointers& p) {
                      const auto* x = p.get<const float>(0);
                      auto* y = p.get<float>(1);
                      parallel_for(count, kLogarithmsAThread, [=](int64_t begin, int64_t end) {
                        logarithms(x + begin, y + begin, end - begin);
                      });
                    });
}

/// What oneDNN does not have, or has with errors, such as its error function, 1e-6 and more.
void lower_each(Lowering& lowering, const Node& node, float (*function)(float)) {
  const int64_t count = lowering.shape(node.inputs[0]).elements();
  lowering.function({lowering.plain_region(node.inputs[0])}, {lowering.define_plain(node.outputs[0])},
                    [=](const Pointers& p) {
                      const auto* x = p.get<const float>(0);
                      auto* y = p.get<float>(1);
                      parallel_for(count, kFunctionsAThread, [=](int64_t begin, int64_t end) {
                        std::transform(x + begin, x + end, y + begin, function);
                      });
                    });
}

/// A loop of our own: the derivative of oneDNN's clipping is 0 at the limits.
void lower_within(Lowering& lowering, const Node& node) {
  const int64_t count = lowering.shape(node.inputs[0]).elements();
  const float least = real(node, "least");
  const float most = real(node, "most");
  lowering.function({lowering.plain_region(node.inputs[0])}, {lowering.define_plain(node.outputs[0])},
                    [=](const Pointers& p) {
                      const auto* x = p.get<const float>(0);
                      auto* y = p.get<float>(1);
                      parallel_for(count, kComparisonsAThread, [=](int64_t begin, int64_t end) {
                        for (int64_t i = begin; i < end; ++i)
                          y[i] = x[i] >= least && x[i] <= most ? 1.0F : 0.0F;
                      });
                    });
}

}  // namespace

void register_math(Kernels& kernels) {
  kernels.add("exp", [](Lowering& lowering, const Node& node) {
    lower_function(lowering, node, dnnl::algorithm::eltwise_exp, 0, 0);
  });
  kernels.add("log", lower_log);
  kernels.add("sin", [](Lowering& lowering, const Node& node) { lower_each(lowering, node, std::sin); });
  kernels.add("cos", [](Lowering& lowering, const Node& node) { lower_each(lowering, node, std::cos); });
  kernels.add("atan", [](Lowering& lowering, const Node& node) { lower_each(lowering, node, std::atan); });
  kernels.add("erf", [](Lowering& lowering, const Node& node) { lower_each(lowering, node, std::erf); });
  kernels.add("log1p", [](Lowering& lowering, const Node& node) { lower_each(lowering, node, std::log1p); });
  kernels.add("expm1", [](Lowering& lowering, const Node& node) { lower_each(lowering, node, std::expm1); });
  kernels.add("floor", [](Lowering& lowering, const Node& node) { lower_each(lowering, node, std::floor); });
  kernels.add("round",
              [](Lowering& lowering, const Node& node) { lower_each(lowering, node, std::nearbyint); });
  kernels.add("pow", [](Lowering& lowering, const Node& node) {
    lower_function(lowering, node, dnnl::algorithm::eltwise_pow, 1, real(node, "exponent"));
  });
  kernels.add("clamp", [](Lowering& lowering, const Node& node) {
    lower_function(lowering, node, dnnl::algorithm::eltwise_clip, real(node, "least"), real(node, "most"));
  });
  kernels.add("within", lower_within);
}

}  // namespace telar::cpu
