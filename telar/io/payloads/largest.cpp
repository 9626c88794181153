#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <utility>

#include "telar/core/error.h"
#include "telar/io/payload.h"

namespace telar {

namespace {

/// The values that are not zero: their places, then the values. Aji and Heafield, Sparse Communication for
/// Distributed Gradient Descent, 2017; Lin et al., Deep Gradient Compression, 2018.
class Largest final : public Payload {
 public:
  void choose(std::span<float> values, std::span<float> rest, double share, bool trained) const override {
    std::ranges::fill(rest, 0.0F);
    const auto kept = static_cast<size_t>(std::ceil(share * static_cast<double>(values.size())));
    if (!trained || values.size() <= kWhole || kept >= values.size()) return;
    const float least = magnitude_of(values, kept);
    size_t left = kept;  // of several equal ones the first are pushed
    for (const float value : values)
      if (std::abs(value) > least && left > 0) --left;
    for (size_t i = 0; i < values.size(); ++i) {
      const float size = std::abs(values[i]);
      if (size > least || std::isnan(size)) continue;
      if (size == least && left > 0) {
        --left;
        continue;
      }
      rest[i] = std::exchange(values[i], 0.0F);
    }
  }

  std::vector<std::byte> encode(std::span<const float> values) const override {
    const auto count = values.size() - static_cast<size_t>(std::ranges::count(values, 0.0F));
    std::vector<std::byte> bytes;
    if (count * kEach >= values.size_bytes()) return bytes;
    bytes.resize(count * kEach);
    std::byte* place = bytes.data();
    std::byte* number = bytes.data() + count * sizeof(uint32_t);
    for (uint32_t i = 0; i < values.size(); ++i) {
      if (values[i] == 0.0F) continue;
      std::memcpy(place, &i, sizeof i);
      std::memcpy(number, &values[i], sizeof(float));
      place += sizeof i;
      number += sizeof(float);
    }
    return bytes;
  }

  void decode(std::span<const std::byte> bytes, std::span<float> values) const override {
    std::ranges::fill(values, 0.0F);
    const size_t count = bytes.size() / kEach;
    if (bytes.size() % kEach != 0 || count > values.size())
      throw user_error("{} bytes are not the largest of {} values", bytes.size(), values.size());
    int64_t before = -1;
    for (size_t i = 0; i < count; ++i) {
      uint32_t place = 0;
      std::memcpy(&place, bytes.data() + i * sizeof place, sizeof place);
      if (place >= values.size() || place <= before)
        throw user_error("value {} follows value {} of {}", place, before, values.size());
      std::memcpy(&values[place], bytes.data() + count * sizeof place + i * sizeof(float), sizeof(float));
      before = place;
    }
  }

 private:
  static constexpr size_t kEach = sizeof(uint32_t) + sizeof(float);
  /// Variables of so few values (biases) are pushed whole: they cost little, and most of them matter.
  static constexpr size_t kWhole = 1024;

  /// Of the `kept` largest magnitudes, the least. A NaN counts as the largest.
  static float magnitude_of(std::span<const float> values, size_t kept) {
    std::vector<float> sizes(values.size());
    std::ranges::transform(values, sizes.begin(),
                           [](float value) { return std::isnan(value) ? INFINITY : std::abs(value); });
    const auto least = sizes.begin() + static_cast<ptrdiff_t>(kept - 1);
    std::ranges::nth_element(sizes, least, std::greater<>());
    return *least;
  }
};

}  // namespace

void register_largest(PayloadRegistry& registry) {
  registry.add(
      {"largest",
       "largest: of each variable, the share of its values that are largest in magnitude (share); variables of up to 1,024 values and running statistics whole.",
       std::make_shared<Largest>(), true});
}

}  // namespace telar
