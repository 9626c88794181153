#include "telar/data/pictures/byte_images.h"

#include <cstring>
#include <utility>

#include "telar/data/pictures/pixel_loops.h"

namespace telar {
namespace {

class ByteImages : public Dataset {
 public:
  ByteImages(SampleSpec spec, Bytes storage, ByteLayout layout, std::vector<int32_t> labels, float scale)
      : spec_(std::move(spec)),
        storage_(std::move(storage)),
        layout_(layout),
        labels_(std::move(labels)),
        scale_(scale) {}

  int64_t size() const override { return static_cast<int64_t>(labels_.size()); }
  const SampleSpec& spec() const override { return spec_; }

  void expect(int64_t index) const override {
    constexpr size_t kLine = 64;
    const uint8_t* pixels = pixels_of(index);
    for (size_t p = 0; p < static_cast<size_t>(spec_.features.elements()); p += kLine)
      __builtin_prefetch(pixels + p);
  }

  void read(int64_t index, const SampleKey& /*key*/, std::span<std::byte> features,
            std::span<std::byte> label) const override {
    const std::span<float> out = as_floats(features);
    scaled_bytes({pixels_of(index), out.size()}, scale_, out);
    std::memcpy(label.data(), &labels_[static_cast<size_t>(index)], sizeof(int32_t));
  }

 private:
  const uint8_t* pixels_of(int64_t index) const {
    return storage_.data() + layout_.offset + static_cast<size_t>(index) * layout_.stride;
  }

  SampleSpec spec_;
  Bytes storage_;
  ByteLayout layout_;
  std::vector<int32_t> labels_;
  float scale_;
};

}  // namespace

DatasetPtr byte_images(SampleSpec spec, Bytes storage, ByteLayout layout, std::vector<int32_t> labels,
                       float scale) {
  return std::make_shared<ByteImages>(std::move(spec), std::move(storage), layout, std::move(labels), scale);
}

}  // namespace telar
