#include "telar/data/subset.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string_view>
#include <utility>

#include "telar/core/buffer.h"
#include "telar/core/error.h"
#include "telar/core/random.h"
#include "telar/data/permutation.h"

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

struct FirstNumbers {
  int64_t size = 0;
  int64_t count() const { return size; }
  int64_t operator[](int64_t position) const { return position; }
};

template <typename Numbers>
DatasetPtr choose(DatasetPtr data, Numbers numbers) {
  return std::make_shared<Chosen<Numbers>>(std::move(data), std::move(numbers));
}

/// The first `wanted` numbers of 0 … size-1 in the order of a Fisher–Yates shuffle, for which it takes an
/// array of all.
std::vector<int64_t> chosen_by_shuffle(int64_t size, int64_t wanted, uint64_t seed, std::string_view name) {
  std::vector<uint32_t> order(static_cast<size_t>(size));
  std::iota(order.begin(), order.end(), 0U);
  RandomSequence random(seed, stream_of(name.data(), name.size()));
  for (size_t left = order.size(); left > 1; --left)
    std::swap(order[left - 1], order[random.below(static_cast<uint32_t>(left))]);
  return {order.begin(), order.begin() + wanted};
}

/// The same number of samples must be divided in the same way by every version: a checkpoint would otherwise
/// be tested on samples that it has been trained on. So this choice is still that of the first versions,
/// except for more samples than those had memory for.
std::vector<int64_t> chosen(int64_t size, int64_t wanted, uint64_t seed) {
  constexpr std::string_view kName = "validation";
  constexpr int64_t kMostShuffled = int64_t{1} << 24U;
  if (size <= kMostShuffled) return chosen_by_shuffle(size, wanted, seed, kName);
  std::vector<int64_t> numbers(static_cast<size_t>(wanted));
  Permutation(size, seed, kName).read(0, numbers);
  return numbers;
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

DatasetPtr first_samples(DatasetPtr data, int64_t count) {
  if (count < 0 || count > data->size())
    throw user_error("There are no {} samples; the dataset has {}", count, data->size());
  return choose(std::move(data), FirstNumbers{count});
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
  std::vector<int64_t> order(labels.size());
  std::iota(order.begin(), order.end(), int64_t{0});
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return labels[static_cast<size_t>(a)] < labels[static_cast<size_t>(b)];
  });
  return subset(data, std::move(order));
}

HeldOut hold_out(const DatasetPtr& data, double fraction, uint64_t seed) {
  const auto wanted = std::llround(fraction * static_cast<double>(data->size()));
  if (!(fraction > 0 && fraction < 1) || wanted < 1 || wanted >= data->size()) {
    throw user_error(
        "Holding out {} of {} samples for validation leaves one part empty; a fraction between 0 and 1 that leaves samples in both parts is needed",
        fraction, data->size());
  }
  Selection held_out(data->size(), chosen(data->size(), wanted, seed));
  DatasetPtr train = selected(data, held_out.complement());
  return {std::move(train), selected(data, std::move(held_out))};
}

}  // namespace telar
