#pragma once

#include <atomic>
#include <charconv>
#include <cstring>
#include <string>

#include "telar/core/error.h"
#include "telar/core/random.h"
#include "telar/data/batch_source.h"

namespace telar::test {

/// Batches without an end: batch n has `samples` samples with ids from n · samples on, of four random
/// features, whose class is that of the largest. A position is a text, so that nothing else can compute with
/// it; longer numbers are greater.
class Endless : public BatchSource {
 public:
  /// `last`: the number of batches after which the source has no more, which it tells nobody; -1: none.
  /// `foresees`: whether the next position is known before a batch is read.
  explicit Endless(int64_t samples, bool foresees = true, int64_t last = -1)
      : samples_(samples), foresees_(foresees), last_(last) {}

  const std::vector<BatchTensor>& tensors() const override { return tensors_; }

  Position begin(uint32_t pass) const override {
    if (pass > 0) throw run_error("a source without an end has no pass {}", pass);
    return position_of(0);
  }
  std::optional<Position> find(uint32_t /*pass*/, int64_t /*batches*/) const override { return std::nullopt; }
  std::optional<PassSize> size(uint32_t /*pass*/) const override { return std::nullopt; }
  bool at_end(const Position& position) const override { return number_of(position) == last_; }
  std::optional<Position> after(const Position& position) const override {
    return foresees_ ? std::optional(position_of(number_of(position) + 1)) : std::nullopt;
  }

  using BatchSource::read;
  void read(const Position& position, Batch& batch, const std::stop_token& /*stop*/) const override {
    const int64_t number = number_of(position);
    ++reads_;
    batch.resize(samples_);
    batch.epoch = 0;
    batch.all_samples = samples_;
    batch.after = position_of(number + 1);
    RandomSequence random(static_cast<uint64_t>(number), 1);
    for (int64_t i = 0; i < samples_; ++i) {
      float features[4];
      int32_t label = 0;
      for (int32_t f = 0; f < 4; ++f) {
        features[f] = random.uniform();
        if (features[f] > features[label]) label = f;
      }
      std::memcpy(batch.data(0) + static_cast<size_t>(i) * sizeof features, features, sizeof features);
      std::memcpy(batch.data(1) + static_cast<size_t>(i) * sizeof label, &label, sizeof label);
      batch.ids()[static_cast<size_t>(i)] = number * samples_ + i;
    }
  }

  int64_t reads() const { return reads_; }

  static Position position_of(int64_t number) {
    const std::string digits = std::to_string(number);
    return {"batch " + std::string(1, static_cast<char>('a' + digits.size())) + digits};
  }

 private:
  static int64_t number_of(const Position& position) {
    int64_t number = -1;
    constexpr size_t kBefore = 7;
    if (position.bytes.size() > kBefore)
      std::from_chars(position.bytes.data() + kBefore, position.bytes.data() + position.bytes.size(), number);
    if (number < 0 || position_of(number) != position)
      throw user_error("'{}' is not a position of this source", position.bytes);
    return number;
  }

  int64_t samples_;
  bool foresees_;
  int64_t last_;
  mutable std::atomic<int64_t> reads_{0};
  std::vector<BatchTensor> tensors_ = {{"x", DType::f32, {4}}, {"label", DType::i32, {}}};
};

}  // namespace telar::test
