#include "telar/graph/ops/dropout.h"
#include "telar/core/bf16.h"

#include <algorithm>
#include <array>

#include "telar/core/simd.h"
#include "telar/device/cpu/kernels.h"
#include "telar/device/cpu/parallel.h"

namespace telar::cpu {

namespace {

constexpr int64_t kDropsAThread = 4096;  // elements for each thread
constexpr int64_t kBlocks = 16;          // of four words, which are drawn together
constexpr int64_t kWords = 4 * kBlocks;

/// The words of kBlocks blocks from `first` on: what rule.philox gives for their counters. The loops are over
/// blocks, and the words have 64 bits each, because the compiler then finds vector instructions for the
/// products.
TELAR_FOR_EACH_CPU
void draw(const DropoutRule& rule, uint64_t first, const int32_t* sample, uint32_t* words) {
  constexpr uint64_t kLow = 0xffffffff;
  uint64_t c[4][kBlocks];
  const Philox::Counter begin = rule.counter(first, sample);
  for (uint32_t i = 0; i < kBlocks; ++i) {
    c[0][i] = begin[0] + i;
    for (size_t word = 1; word < 4; ++word) c[word][i] = begin[word];
  }
  auto [k0, k1] = rule.philox.key();
  for (int round = 0; round < Philox::kRounds; ++round) {
    for (int64_t i = 0; i < kBlocks; ++i) {
      const uint64_t p0 = Philox::kMultiplier0 * (c[0][i] & kLow);
      const uint64_t p1 = Philox::kMultiplier1 * (c[2][i] & kLow);
      c[0][i] = (p1 >> 32) ^ c[1][i] ^ k0;
      c[2][i] = (p0 >> 32) ^ c[3][i] ^ k1;
      c[1][i] = p1 & kLow;
      c[3][i] = p0 & kLow;
    }
    k0 += Philox::kKeyStep0;
    k1 += Philox::kKeyStep1;
  }
  for (int64_t i = 0; i < kBlocks; ++i)
    for (int64_t word = 0; word < 4; ++word) words[4 * i + word] = static_cast<uint32_t>(c[word][i]);
}

// The product is computed before it is chosen, because the compiler makes no vector of a product under a
// condition.
TELAR_FOR_EACH_CPU
void keep(const float* x, float* y, const uint32_t* words, int64_t count, uint32_t threshold, float scale) {
  for (int64_t i = 0; i < count; ++i) {
    const float scaled = x[i] * scale;
    y[i] = words[i] >= threshold ? scaled : 0.0F;
  }
}

TELAR_FOR_EACH_CPU
void keep(const uint16_t* x, uint16_t* y, const uint32_t* words, int64_t count, uint32_t threshold,
          float scale) {
  for (int64_t i = 0; i < count; ++i) {
    const uint32_t scaled = rounded_to_bf16(from_bf16(x[i]) * scale) >> 16;
    y[i] = static_cast<uint16_t>(words[i] >= threshold ? scaled : 0);
  }
}

/// x and y: elements [first, first + count) of a sample.
template <typename T>
void drop(const T* x, T* y, int64_t first, int64_t count, const int32_t* sample, const DropoutRule& rule) {
  std::array<uint32_t, kWords> words;
  for (int64_t i = first / 4 * 4; i < first + count; i += kWords) {
    draw(rule, static_cast<uint64_t>(i) / 4, sample, words.data());
    const int64_t begin = std::max(i, first);
    const int64_t end = std::min(i + kWords, first + count);
    keep(x + (begin - first), y + (begin - first), words.data() + (begin - i), end - begin, rule.threshold,
         rule.scale);
  }
}

template <typename T>
Function dropout_function(const DropoutConstants& constants, int64_t samples, int64_t first,
                          int64_t per_sample) {
  return [=](const Pointers& p) {
    const DropoutRule rule(constants, p.get<const int32_t>(2));
    const auto* x = p.get<const T>(0);
    const auto* sample = p.get<const int32_t>(1);
    auto* y = p.get<T>(3);
    parallel_for(samples, std::max<int64_t>(1, kDropsAThread / per_sample), [&](int64_t begin, int64_t end) {
      for (int64_t n = begin; n < end; ++n)
        drop(x + n * per_sample, y + n * per_sample, first, per_sample, sample + 2 * n, rule);
    });
  };
}

void lower_dropout(Lowering& lowering, const Node& node) {
  const ValueId x = node.inputs[0];
  const ValueId y = node.outputs[0];
  const Shape& shape = lowering.shape(x);
  const std::vector<RegionId> reads{lowering.plain_region(x), lowering.plain_region(node.inputs[1]),
                                    lowering.plain_region(node.inputs[2])};
  lowering.define_in_place(y, x, plain(lowering.type(x).dtype, shape));
  const int64_t per_sample = shape.elements_per_item();
  const DropoutConstants constants = dropout_constants(node.attributes);
  const int64_t first = dropout_begin(node.attributes);
  lowering.function(reads, {lowering.region(y)},
                    lowering.type(x).dtype == DType::f32
                        ? dropout_function<float>(constants, shape[0], first, per_sample)
                        : dropout_function<uint16_t>(constants, shape[0], first, per_sample));
}

}  // namespace

void register_dropout(Kernels& kernels) { kernels.add("dropout", lower_dropout); }

}  // namespace telar::cpu
