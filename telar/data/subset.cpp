#include "telar/data/subset.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "telar/core/error.h"
#include "telar/data/tables/label_sums.h"

namespace telar {
namespace {

/// Samples of another dataset, by number. `Numbers` has count() and operator[].
template <typename Numbers>
class Chosen : public Dataset {
 public:
  Chosen(DatasetPtr data, Numbers numbers) : data_(std::move(data)), numbers_(std::move(numbers)) {}

  int64_t size() const override { return numbers_.count(); }
  const SampleSpec& spec() const override { return data_->spec(); }
  bool random() const override { return data_->random(); }

  void expect(int64_t index) const override { data_->expect(numbers_[index]); }

  void read(int64_t index, const SampleKey& key, std::span<std::byte> features,
            std::span<std::byte> label) const override {
    data_->read(numbers_[index], key, features, label);
  }

 private:
  DatasetPtr data_;
  Numbers numbers_;
};

struct ListedNumbers {
  std::vector<int64_t> numbers;
  int64_t count() const { return static_cast<int64_t>(numbers.size()); }
  int64_t operator[](int64_t position) const { return numbers[static_cast<size_t>(position)]; }
};

template <typename Numbers>
DatasetPtr choose(DatasetPtr data, Numbers numbers) {
  return std::make_shared<Chosen<Numbers>>(std::move(data), std::move(numbers));
}

}  // namespace

DatasetPtr subset(DatasetPtr data, std::vector<int64_t> indices) {
  for (const int64_t index : indices) {
    if (index < 0 || index >= data->size())
      throw user_error("There is no sample {}; the dataset has {}", index, data->size());
  }
  return choose(std::move(data), ListedNumbers{std::move(indices)});
}

DatasetPtr selected(DatasetPtr data, Selection selection) {
  return choose(std::move(data), std::move(selection));
}

DatasetPtr even_samples(DatasetPtr data, const EvenNumbers& numbers) {
  return choose(std::move(data), numbers);
}

DatasetPtr by_label(const DatasetPtr& data) {
  const std::vector<int32_t> labels = labels_of(*data);
  std::vector<int64_t> order(labels.size());
  std::iota(order.begin(), order.end(), int64_t{0});
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return labels[static_cast<size_t>(a)] < labels[static_cast<size_t>(b)];
  });
  return subset(data, std::move(order));
}

}  // namespace telar
