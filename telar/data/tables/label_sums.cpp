#include "telar/data/tables/label_sums.h"

#include <functional>
#include <utility>

#include "telar/core/buffer.h"
#include "telar/core/error.h"

namespace telar {

namespace {

void for_each_label(const Dataset& data, const std::function<void(std::span<std::byte>)>& take) {
  Buffer features(data.spec().feature_bytes());
  Buffer label(data.spec().label_bytes());
  const std::span<std::byte> bytes{label.data(), label.size()};
  for (int64_t i = 0; i < data.size(); ++i) {
    data.read(i, {}, {features.data(), features.size()}, bytes);
    take(bytes);
  }
}

class Probabilities final : public Dataset {
 public:
  Probabilities(DatasetPtr data, bool whole) : data_(std::move(data)), whole_(whole) {}

  int64_t size() const override { return data_->size(); }
  const SampleSpec& spec() const override { return data_->spec(); }
  bool random() const override { return data_->random(); }
  void expect(int64_t index) const override { data_->expect(index); }

  void read(int64_t index, const SampleKey& key, std::span<std::byte> features,
            std::span<std::byte> label) const override {
    data_->read(index, key, features, label);
    for (const float value : as_floats(label)) {
      if (whole_ ? value == 0 || value == 1 : value >= 0 && value <= 1) continue;
      throw user_error("a label is {}; with this loss, each number of a label is {}", value,
                       whole_ ? "0 or 1" : "from 0 to 1");
    }
  }

 private:
  DatasetPtr data_;
  bool whole_;
};

}  // namespace

std::vector<int32_t> labels_of(const Dataset& data) {
  if (data.spec().classes == 0) throw user_error("the labels are numbers, so the samples have no classes");
  if (data.spec().labels_positions())
    throw user_error("a sample has {} labels, one for each position, so it is not of one class",
                     data.spec().labels.elements());
  std::vector<int32_t> labels;
  for_each_label(data, [&](std::span<std::byte> label) { labels.push_back(as_ints(label)[0]); });
  return labels;
}

std::vector<int64_t> class_counts(const Dataset& data) {
  std::vector<int64_t> counts(static_cast<size_t>(data.spec().classes));
  for (const int32_t label : labels_of(data)) ++counts[static_cast<size_t>(label)];
  return counts;
}

std::vector<double> target_means(const Dataset& data) {
  if (data.spec().classes > 0) throw user_error("the labels are classes, not numbers");
  std::vector<double> means(static_cast<size_t>(data.spec().labels.elements()));
  double count = 0;
  for_each_label(data, [&](std::span<std::byte> label) {
    ++count;
    const std::span<float> values = as_floats(label);
    for (size_t i = 0; i < means.size(); ++i) means[i] += (values[i] - means[i]) / count;
  });
  return means;
}

DatasetPtr with_probabilities(DatasetPtr data, bool whole) {
  return std::make_shared<Probabilities>(std::move(data), whole);
}

}  // namespace telar
