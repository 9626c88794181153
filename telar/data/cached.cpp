#include "telar/data/cached.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <new>
#include <utility>

#include "telar/core/error.h"

namespace telar {
namespace {

enum State : uint8_t { kEmpty, kFilling, kReady };

class Cached : public Dataset {
 public:
  Cached(DatasetPtr data, size_t kept)
      : data_(std::move(data)),
        kept_(kept),
        features_(data_->spec().feature_bytes()),
        sample_(features_ + data_->spec().label_bytes()),
        states_(std::make_unique<std::atomic<uint8_t>[]>(kept)),
        memory_(std::make_unique_for_overwrite<std::byte[]>(kept * sample_)) {
  }  // the system provides pages when they are first written

  int64_t size() const override { return data_->size(); }
  const SampleSpec& spec() const override { return data_->spec(); }

  void read(int64_t index, const SampleKey& key, std::span<std::byte> features,
            std::span<std::byte> label) const override {
    const auto i = static_cast<size_t>(index);
    if (i >= kept_) return data_->read(index, key, features, label);
    std::byte* place = memory_.get() + i * sample_;
    if (states_[i].load(std::memory_order_acquire) == kReady) {
      std::memcpy(features.data(), place, features.size());
      std::memcpy(label.data(), place + features_, label.size());
      return;
    }
    data_->read(index, key, features, label);
    uint8_t expected = kEmpty;
    if (!states_[i].compare_exchange_strong(expected, kFilling, std::memory_order_relaxed)) return;
    std::memcpy(place, features.data(), features.size());
    std::memcpy(place + features_, label.data(), label.size());
    states_[i].store(kReady, std::memory_order_release);
  }

 private:
  DatasetPtr data_;
  size_t kept_;      ///< samples 0 … kept_-1 are kept
  size_t features_;  ///< bytes of one sample's features
  size_t sample_;    ///< bytes kept for one sample: features, then label
  std::unique_ptr<std::atomic<uint8_t>[]> states_;
  std::unique_ptr<std::byte[]> memory_;
};

}  // namespace

DatasetPtr cached(DatasetPtr data, uint64_t capacity_bytes) {
  if (data->random()) {
    throw user_error(
        "Augmented data cannot be cached, since it would be the same in every epoch; cache it before it is augmented");
  }
  const uint64_t sample = data->spec().feature_bytes() + data->spec().label_bytes();
  const uint64_t kept = std::min(static_cast<uint64_t>(data->size()), capacity_bytes / sample);
  try {
    return std::make_shared<Cached>(std::move(data), kept);
  } catch (const std::bad_alloc&) {
    throw user_error(
        "Caching needs {} bytes of memory, which this machine does not have; give the cache a limit",
        kept * sample);
  }
}

}  // namespace telar
