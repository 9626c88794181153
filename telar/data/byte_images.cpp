#include "telar/data/byte_images.h"

#include <cstring>
#include <utility>

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

  void read(int64_t index, const SampleKey& /*key*/, std::span<std::byte> features,
            std::span<std::byte> label) const override {
    const auto i = static_cast<size_t>(index);
    const uint8_t* pixels = storage_.data() + layout_.offset + i * layout_.stride;
    const std::span<float> out = as_floats(features);
    for (size_t p = 0; p < out.size(); ++p) out[p] = static_cast<float>(pixels[p]) * scale_;
    std::memcpy(label.data(), &labels_[i], sizeof(int32_t));
  }

 private:
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
