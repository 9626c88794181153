#include "telar/data/permutation.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <vector>

#include "telar/core/error.h"
#include "telar/core/random.h"

namespace telar {

namespace {

/// So few numbers would be permuted in too few ways; more are walked over instead.
constexpr uint32_t kLeastBits = 6;

constexpr uint64_t kMultiplier = 0xD2B74407B1CE6E93;  // of Philox4x64

uint32_t bits_for(int64_t size) {
  return std::max(kLeastBits, static_cast<uint32_t>(std::bit_width(static_cast<uint64_t>(size - 1))));
}

}  // namespace

Permutation::Permutation(int64_t size, uint64_t seed, std::string_view name) : size_(size) {
  if (size < 0 || size > kMostSamples) {
    throw user_error("A dataset of {} samples cannot be ordered; at most {} samples are possible", size,
                     kMostSamples);
  }
  const uint32_t bits = size == 0 ? kLeastBits : bits_for(size);
  left_bits_ = bits / 2;
  right_bits_ = bits - left_bits_;
  RandomSequence random(seed, stream_of(name.data(), name.size()));
  for (uint32_t& key : keys_) key = random.next();
}

/// Several numbers at once, because a round waits for the multiplication of the one before.
void Permutation::permute(Lanes& values) const {
  const uint32_t left_mask = (1U << left_bits_) - 1;
  const uint32_t right_mask = (1U << right_bits_) - 1;
  const uint32_t more = right_bits_ - left_bits_;
  std::array<uint32_t, kLanes> left{};
  std::array<uint32_t, kLanes> right{};
  for (size_t lane = 0; lane < kLanes; ++lane) {
    left[lane] = static_cast<uint32_t>(values[lane] >> right_bits_);
    right[lane] = static_cast<uint32_t>(values[lane]) & right_mask;
  }
  for (const uint32_t key : keys_) {
    for (size_t lane = 0; lane < kLanes; ++lane) {
      const uint64_t product = kMultiplier * left[lane];
      const uint32_t before = right[lane];
      left[lane] = (static_cast<uint32_t>(product >> 32U) ^ key ^ before) & left_mask;
      right[lane] = (static_cast<uint32_t>(product) << more | before >> left_bits_) & right_mask;
    }
  }
  for (size_t lane = 0; lane < kLanes; ++lane)
    values[lane] = uint64_t{left[lane]} << right_bits_ | right[lane];
}

void Permutation::read(int64_t first, std::span<int64_t> numbers) const {
  std::iota(numbers.begin(), numbers.end(), first);
  std::vector<size_t> left(numbers.size());  // places of numbers that are not permuted, or not below size
  std::iota(left.begin(), left.end(), size_t{0});
  while (!left.empty()) {
    size_t kept = 0;
    for (size_t begin = 0; begin < left.size(); begin += kLanes) {
      const size_t count = std::min(kLanes, left.size() - begin);
      Lanes values{};
      for (size_t i = 0; i < count; ++i) values[i] = static_cast<uint64_t>(numbers[left[begin + i]]);
      permute(values);
      for (size_t i = 0; i < count; ++i) {
        const size_t place = left[begin + i];
        numbers[place] = static_cast<int64_t>(values[i]);
        if (numbers[place] >= size_) left[kept++] = place;
      }
    }
    left.resize(kept);
  }
}

}  // namespace telar
