#include "telar/data/texts/padded_texts.h"

#include <algorithm>
#include <memory>
#include <utility>

namespace telar {

namespace {

class PaddedTexts final : public Dataset {
 public:
  PaddedTexts(SampleSpec spec, std::vector<std::vector<int32_t>> texts, std::vector<int32_t> labels)
      : spec_(std::move(spec)), texts_(std::move(texts)), labels_(std::move(labels)) {}

  int64_t size() const override { return std::ssize(texts_); }
  const SampleSpec& spec() const override { return spec_; }

  void read(int64_t index, const SampleKey& /*key*/, std::span<std::byte> features,
            std::span<std::byte> label) const override {
    const std::vector<int32_t>& text = texts_[static_cast<size_t>(index)];
    const std::span<int32_t> tokens = as_ints(features);
    const auto end =
        std::ranges::transform(text, tokens.begin(), [](int32_t token) { return token + 1; }).out;
    std::fill(end, tokens.end(), kPadding);
    as_ints(label)[0] = labels_[static_cast<size_t>(index)];
  }

 private:
  SampleSpec spec_;
  std::vector<std::vector<int32_t>> texts_;
  std::vector<int32_t> labels_;
};

}  // namespace

SampleSpec spec_of_padded(int64_t length, int64_t tokens, std::vector<std::string> class_names) {
  SampleSpec spec;
  spec.features = {length};
  spec.dtype = DType::i32;
  spec.vocabulary = tokens + 1;
  spec.classes = std::ssize(class_names);
  spec.class_names = std::move(class_names);
  return spec;
}

DatasetPtr padded_texts(SampleSpec spec, std::vector<std::vector<int32_t>> texts,
                        std::vector<int32_t> labels) {
  return std::make_shared<PaddedTexts>(std::move(spec), std::move(texts), std::move(labels));
}

}  // namespace telar
