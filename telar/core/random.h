#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace telar {

/// Counter-based random numbers: Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3",
/// SC 2011). The same key and counter give the same four words on every worker, thread and device, in any
/// order. (constexpr and C++17, so that the same code compiles for a GPU.)
class Philox {
 public:
  using Counter = std::array<uint32_t, 4>;
  static constexpr int kRounds = 10;
  static constexpr uint32_t kMultiplier0 = 0xD2511F53, kMultiplier1 = 0xCD9E8D57;
  static constexpr uint32_t kKeyStep0 = 0x9E3779B9, kKeyStep1 = 0xBB67AE85;  ///< from round to round

  /// `seed` identifies the job, `stream` the use within it (an operation, the shuffle, a parameter's values).
  constexpr Philox(uint64_t seed, uint64_t stream) : key_{} {
    const uint64_t key = mix(mix(seed) ^ stream);
    key_ = {static_cast<uint32_t>(key), static_cast<uint32_t>(key >> 32)};
  }

  constexpr const std::array<uint32_t, 2>& key() const { return key_; }

  /// Four independent 32-bit words for one counter.
  constexpr Counter operator()(const Counter& counter) const {
    Counter c = counter;
    uint32_t k0 = key_[0];
    uint32_t k1 = key_[1];
    for (int round = 0; round < kRounds; ++round) {
      const uint64_t p0 = uint64_t{kMultiplier0} * c[0];
      const uint64_t p1 = uint64_t{kMultiplier1} * c[2];
      c = {static_cast<uint32_t>(p1 >> 32) ^ c[1] ^ k0, static_cast<uint32_t>(p1),
           static_cast<uint32_t>(p0 >> 32) ^ c[3] ^ k1, static_cast<uint32_t>(p0)};
      k0 += kKeyStep0;
      k1 += kKeyStep1;
    }
    return c;
  }

 private:
  /// SplitMix64's finaliser: neighbouring seeds give unrelated keys.
  static constexpr uint64_t mix(uint64_t x) {
    x += 0x9e3779b97f4a7c15ULL;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
    return x ^ (x >> 31);
  }

  std::array<uint32_t, 2> key_;
};

/// Uniform over [0, 1), from 24 random bits.
inline float uniform01(uint32_t word) { return static_cast<float>(word >> 8) * 0x1.0p-24F; }

/// Two independent standard normal numbers from two words (Box–Muller).
std::array<float, 2> normal_pair(uint32_t a, uint32_t b);

/// A stream number for a name (FNV-1a 64): the same on every machine.
uint64_t stream_of(const char* name, size_t length);

/// A sequence of numbers from one stream, for code that draws one after another (shuffles, initialisation).
class RandomSequence {
 public:
  RandomSequence(uint64_t seed, uint64_t stream) : philox_(seed, stream) {}
  uint32_t next();
  /// Uniform over 0 … bound-1, without modulo bias (Lemire 2019). bound > 0.
  uint32_t below(uint32_t bound);
  float uniform() { return uniform01(next()); }
  float normal();

 private:
  Philox philox_;
  uint64_t drawn_ = 0;
  Philox::Counter block_{};
  float spare_ = 0;
  bool has_spare_ = false;
};

}  // namespace telar
