#include <algorithm>
#include <cmath>
#include <limits>

#include "telar/core/simd.h"
#include "telar/device/cpu/kernels.h"
#include "telar/device/cpu/kernels/common/limits.h"
#include "telar/device/cpu/kernels/common/logarithm.h"
#include "telar/device/cpu/parallel.h"
#include "telar/device/cpu/primitives.h"

namespace telar::cpu {

namespace {

constexpr int64_t kComparisonsAThread = 1 << 14;
constexpr int64_t kLogarithmsAThread = 1 << 12;
constexpr int64_t kFunctionsAThread = 1 << 10;

TELAR_FOR_EACH_CPU
void clamp_values(const float* x, float least, float most, float* y, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    const float low = x[i] < least ? least : x[i];
    y[i] = low > most ? most : low;
  }
}

float real(const Node& node, const char* name) { return static_cast<float>(node.attributes.real(name)); }

/// `above` and `below`: the limits for x → ∞ and x → −∞, where oneDNN's kernels may be wrong.
void lower_function(Lowering& lowering, const Node& node, const dnnl::eltwise_forward::primitive_desc& pd,
                    float above, float below) {
  const ValueId x = node.inputs[0];
  const Desc desc = lowering.layout(x);
  const RegionId from = lowering.region(x);
  if (lowering.non_finite()) {
    lowering.define(node.outputs[0], desc);
  } else {
    lowering.define_in_place(node.outputs[0], x);
  }
  const RegionId to = lowering.region(node.outputs[0]);
  lowering.primitive(pd, dnnl::eltwise_forward(pd), {{DNNL_ARG_SRC, from}, {DNNL_ARG_DST, to}});
  if (lowering.non_finite()) correct_limits(lowering, desc, {from, from, to}, above, below);
}

void lower_exp(Lowering& lowering, const Node& node) {
  const auto pd = eltwise_forward(dnnl::algorithm::eltwise_exp, lowering.layout(node.inputs[0]), 0, 0);
  lower_function(lowering, node, pd, std::numeric_limits<float>::infinity(), 0);
}

void lower_pow(Lowering& lowering, const Node& node) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  const float exponent = real(node, "exponent");
  const auto pd = eltwise_forward(dnnl::algorithm::eltwise_pow, lowering.layout(node.inputs[0]), 1, exponent);
  // Of a root as of √x; other exponents as of C's pow.
  const bool root = std::abs(exponent) == 0.5F;
  const float below = root ? std::numeric_limits<float>::quiet_NaN() : std::pow(-infinity, exponent);
  lower_function(lowering, node, pd, std::pow(infinity, exponent), below);
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

/// A loop of our own: oneDNN's makes a limit of NaN.
void lower_clamp(Lowering& lowering, const Node& node) {
  const int64_t count = lowering.shape(node.inputs[0]).elements();
  const float least = real(node, "least");
  const float most = real(node, "most");
  lowering.function({lowering.plain_region(node.inputs[0])}, {lowering.define_plain(node.outputs[0])},
                    [=](const Pointers& p) {
                      const auto* x = p.get<const float>(0);
                      auto* y = p.get<float>(1);
                      parallel_for(count, kComparisonsAThread, [=](int64_t begin, int64_t end) {
                        clamp_values(x + begin, least, most, y + begin, end - begin);
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
  kernels.add("exp", lower_exp);
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
  kernels.add("pow", lower_pow);
  kernels.add("clamp", lower_clamp);
  kernels.add("within", lower_within);
}

}  // namespace telar::cpu
