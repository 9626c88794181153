#include <bit>
#include <cstring>

#include "telar/core/bf16.h"
#include "telar/core/dtype.h"
#include "telar/core/error.h"
#include "telar/io/payload.h"

namespace telar {

namespace {

class Bf16 final : public Payload {
 public:
  void choose(std::span<float> values, std::span<float> rest, double /*share*/,
              bool /*trained*/) const override {
    for (size_t i = 0; i < values.size(); ++i) {
      const float rounded = from_bf16(to_bf16(values[i]));
      rest[i] = values[i] - rounded;
      values[i] = rounded;
    }
  }

  std::vector<std::byte> encode(std::span<const float> values) const override {
    std::vector<std::byte> bytes(values.size() * sizeof(uint16_t));
    for (size_t i = 0; i < values.size(); ++i) {
      const auto bits = static_cast<uint16_t>(std::bit_cast<uint32_t>(values[i]) >> 16U);
      std::memcpy(bytes.data() + i * sizeof bits, &bits, sizeof bits);
    }
    return bytes;
  }

  void decode(std::span<const std::byte> bytes, std::span<float> values) const override {
    if (bytes.size() != values.size() * sizeof(uint16_t))
      throw user_error("{} values in bf16 came with {} bytes", values.size(), bytes.size());
    for (size_t i = 0; i < values.size(); ++i) {
      uint16_t bits = 0;
      std::memcpy(&bits, bytes.data() + i * sizeof bits, sizeof bits);
      values[i] = from_bf16(bits);
    }
  }
};

}  // namespace

void register_bf16(PayloadRegistry& registry) {
  registry.add({"bf16", "bf16: every value, rounded to 16 bits.", std::make_shared<Bf16>()});
}

}  // namespace telar
