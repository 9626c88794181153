#include "telar/data/pictures/augmented.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "telar/core/error.h"
#include "telar/core/random.h"

namespace telar {
namespace {

/// A number in 0 … bound-1; its bias is at most bound / 2^32, which does not matter here.
int64_t below(uint32_t word, int64_t bound) {
  return static_cast<int64_t>(uint64_t{word} * static_cast<uint64_t>(bound) >> 32U);
}

/// Row to[x] = from[x + shift], zero outside; `from` and `to` may be the same row.
void shift_row(const float* from, float* to, int64_t width, int64_t shift) {
  const int64_t kept = width - std::abs(shift);
  if (shift >= 0) {
    std::copy(from + shift, from + width, to);
    std::fill(to + kept, to + width, 0.0F);
  } else {
    std::copy_backward(from, from + kept, to + width);
    std::fill(to, to - shift, 0.0F);
  }
}

/// In place: out[y][x] = in[y + dy][x + dx], zero outside. Rows are processed in an order in which none is
/// overwritten before it is read.
void shift_plane(float* plane, int64_t height, int64_t width, int64_t dy, int64_t dx) {
  for (int64_t i = 0; i < height; ++i) {
    const int64_t y = dy >= 0 ? i : height - 1 - i;
    const int64_t source = y + dy;
    float* to = plane + y * width;
    if (source < 0 || source >= height) {
      std::fill(to, to + width, 0.0F);
    } else if (source == y) {
      shift_row(to, to, width, dx);
    } else {
      shift_row(plane + source * width, to, width, dx);
    }
  }
}

class Augmented : public Dataset {
 public:
  Augmented(DatasetPtr data, const AugmentOptions& options) : data_(std::move(data)), options_(options) {}

  int64_t size() const override { return data_->size(); }
  const SampleSpec& spec() const override { return data_->spec(); }
  bool random() const override { return true; }

  void expect(int64_t index) const override { data_->expect(index); }

  void read(int64_t index, const SampleKey& key, std::span<std::byte> features,
            std::span<std::byte> label) const override {
    data_->read(index, key, features, label);
    constexpr std::string_view kName = "augment";
    const auto number = static_cast<uint64_t>(index);
    const auto words = Philox(key.seed, stream_of(kName.data(), kName.size()))(
        {static_cast<uint32_t>(number), static_cast<uint32_t>(number >> 32U), key.epoch, 0});
    const int64_t places = 2 * options_.padding + 1;
    const int64_t dy = below(words[0], places) - options_.padding;
    const int64_t dx = below(words[1], places) - options_.padding;
    const bool mirror = options_.flip && (words[2] >> 31U) != 0;

    const Shape& shape = spec().features;
    const int64_t height = shape[1];
    const int64_t width = shape[2];
    float* plane = as_floats(features).data();
    for (int64_t channel = 0; channel < shape[0]; ++channel, plane += height * width) {
      if (dy != 0 || dx != 0) shift_plane(plane, height, width, dy, dx);
      if (!mirror) continue;
      for (int64_t y = 0; y < height; ++y) std::reverse(plane + y * width, plane + (y + 1) * width);
    }
  }

 private:
  DatasetPtr data_;
  AugmentOptions options_;
};

}  // namespace

DatasetPtr augmented(DatasetPtr data, const AugmentOptions& options) {
  const SampleSpec& spec = data->spec();
  if (spec.dtype != DType::f32 || spec.features.rank() != 3) {
    throw user_error("Only images [C, H, W] of f32 can be augmented, not {} {}", name_of(spec.dtype),
                     spec.features.str());
  }
  const int64_t most = std::min(spec.features[1], spec.features[2]);
  if (options.padding < 0 || options.padding > most) {
    throw user_error("A padding of {} for images {} is not possible; it must be 0 … {}", options.padding,
                     spec.features.str(), most);
  }
  return std::make_shared<Augmented>(std::move(data), options);
}

}  // namespace telar
