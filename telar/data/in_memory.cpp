#include "telar/data/in_memory.h"

#include <cstring>
#include <utility>

namespace telar {
namespace {

class InMemory : public Dataset {
 public:
  InMemory(SampleSpec spec, Bytes features, size_t offset, Bytes labels)
      : spec_(std::move(spec)), features_(std::move(features)), offset_(offset), labels_(std::move(labels)) {}

  int64_t size() const override { return static_cast<int64_t>(labels_.size() / spec_.label_bytes()); }
  const SampleSpec& spec() const override { return spec_; }

  void read(int64_t index, const SampleKey& /*key*/, std::span<std::byte> features,
            std::span<std::byte> label) const override {
    const auto i = static_cast<size_t>(index);
    std::memcpy(features.data(), features_.data() + offset_ + i * features.size(), features.size());
    std::memcpy(label.data(), labels_.data() + i * label.size(), label.size());
  }

 private:
  SampleSpec spec_;
  Bytes features_;
  size_t offset_;
  Bytes labels_;
};

}  // namespace

DatasetPtr in_memory(SampleSpec spec, Bytes features, size_t offset, Bytes labels) {
  return std::make_shared<InMemory>(std::move(spec), std::move(features), offset, std::move(labels));
}

}  // namespace telar
