#include "telar/data/subset.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "telar/core/buffer.h"
#include "telar/core/error.h"
#include "telar/data/permutation.h"

namespace telar {
namespace {

class Subset : public Dataset {
 public:
  Subset(DatasetPtr data, std::vector<uint32_t> indices)
      : data_(std::move(data)), indices_(std::move(indices)) {}

  int64_t size() const override { return static_cast<int64_t>(indices_.size()); }
  const SampleSpec& spec() const override { return data_->spec(); }
  bool random() const override { return data_->random(); }

  void expect(int64_t index) const override { data_->expect(indices_[static_cast<size_t>(index)]); }

  void read(int64_t index, const SampleKey& key, std::span<std::byte> features,
            std::span<std::byte> label) const override {
    data_->read(indices_[static_cast<size_t>(index)], key, features, label);
  }

 private:
  DatasetPtr data_;
  std::vector<uint32_t> indices_;
};

}  // namespace

DatasetPtr subset(DatasetPtr data, std::vector<uint32_t> indices) {
  for (const uint32_t index : indices) {
    if (index >= data->size())
      throw user_error("There is no sample {}; the dataset has {}", index, data->size());
  }
  return std::make_shared<Subset>(std::move(data), std::move(indices));
}

DatasetPtr by_label(const DatasetPtr& data) {
  const SampleSpec& spec = data->spec();
  if (spec.classes == 0) throw user_error("Samples without classes cannot be sorted by class");
  Buffer features(spec.feature_bytes());
  Buffer label(spec.label_bytes());
  std::vector<int32_t> labels(static_cast<size_t>(data->size()));
  for (size_t i = 0; i < labels.size(); ++i) {
    data->read(static_cast<int64_t>(i), {}, {features.data(), features.size()}, {label.data(), label.size()});
    labels[i] = label.as<int32_t>()[0];
  }
  std::vector<uint32_t> order = in_order(data->size());
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return labels[a] < labels[b]; });
  return subset(data, std::move(order));
}

HeldOut hold_out(const DatasetPtr& data, double fraction, uint64_t seed) {
  const auto wanted = std::llround(fraction * static_cast<double>(data->size()));
  if (!(fraction > 0 && fraction < 1) || wanted < 1 || wanted >= data->size()) {
    throw user_error(
        "Holding out {} of {} samples for validation leaves one part empty; a fraction between 0 and 1 that leaves samples in both parts is needed",
        fraction, data->size());
  }
  std::vector<uint32_t> order = permutation(data->size(), seed, "validation");
  const auto middle = order.begin() + wanted;
  std::sort(order.begin(), middle);
  std::sort(middle, order.end());
  return {subset(data, {middle, order.end()}), subset(data, {order.begin(), middle})};
}

}  // namespace telar
