#pragma once

#include <cmath>
#include <cstdint>
#include <span>
#include <string>

#include "telar/graph/training_step.h"

namespace telar::test {

/// Weights, inputs and directions from a fixed formula, with the same bits as in
/// tests/fixtures/models/make_models.py.

/// A 32-bit hash (Wellons' "lowbias32").
inline uint32_t formula_mix(uint32_t x) {
  x ^= x >> 16;
  x *= 0x7FEB352DU;
  x ^= x >> 15;
  x *= 0x846CA68BU;
  return x ^ (x >> 16);
}

/// A sequence of words for a name. Word i is mix(i xor mix(h)), where h is the FNV-1a hash of the name with
/// `salt` added to its initial value.
class FormulaWords {
 public:
  explicit FormulaWords(const std::string& name, uint32_t salt = 0) {
    uint32_t hash = 0x811C9DC5U + salt;
    for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x01000193U;
    stream_ = formula_mix(hash);
  }
  uint32_t word(size_t i) const { return formula_mix(static_cast<uint32_t>(i) ^ stream_); }
  /// In [−1, 1) with 24 bits, therefore exact in f32.
  double unit(size_t i) const { return static_cast<double>(word(i) >> 8) / 8388608.0 - 1; }
  /// −1 or 1.
  double sign(size_t i) const { return (word(i) >> 31) != 0 ? -1 : 1; }

 private:
  uint32_t stream_;
};

/// Fills a parameter of a residual network according to its kind. Convolutions and the final layer have unit
/// gain. Scales are near 0.5; shifts are near `shift`, 0.25 (one in 8) or −0.5 (one in 8); running means are
/// near 0 and running variances near 1.
inline void formula_fill(const ParameterInfo& parameter, uint32_t salt, std::span<float> values,
                         double shift = 0.25) {
  const FormulaWords words(parameter.name, salt);
  const double bound = std::sqrt(3 / static_cast<double>(parameter.shape.elements_per_item()));
  const auto value = [&](size_t i) {
    const double u = words.unit(i);
    if (parameter.name.ends_with("running_var")) return 1 + 0.25 * u;
    if (parameter.name.ends_with("running_mean")) return 0.1 * u;
    if (parameter.shape.rank() > 1) return bound * u;
    if (parameter.name == "fc.bias") return 0.1 * u;
    if (parameter.name.ends_with("bias")) return (i % 8 == 5 ? -0.5 : i % 8 == 1 ? 0.25 : shift) + 0.25 * u;
    return 0.5 + 0.1 * u;
  };
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(value(i));
}

}  // namespace telar::test
