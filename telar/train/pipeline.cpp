#include "telar/train/pipeline.h"

#include <algorithm>

#include "telar/core/error.h"
#include "telar/data/augmented.h"
#include "telar/data/cached.h"
#include "telar/data/normalised.h"
#include "telar/data/permutation.h"
#include "telar/data/subset.h"
#include "telar/train/sources.h"

namespace telar {

namespace {

constexpr int64_t kMeasuredSamples = 2000;
constexpr uint64_t kCacheMegabyte = 1 << 20;
constexpr uint64_t kTestSeed =
    0x7e57;  ///< does not depend on the job's seed, so the test samples stay the same

DatasetPtr limited(DatasetPtr data, int64_t limit) {
  if (limit == 0 || limit >= data->size()) return data;
  return subset(std::move(data), in_order(limit));
}

DatasetPtr in_cache(const DataJob& data, DatasetPtr images) {
  if (data.source != "images" || data.cache_mb == 0) return images;
  return cached(std::move(images), static_cast<uint64_t>(data.cache_mb) * kCacheMegabyte);
}

/// Divides the training source into training samples and those set aside for the test.
HeldOut split_test(const DataJob& data, uint64_t seed) {
  const DatasetPtr all = limited(in_cache(data, open_train_source(data, seed)), data.limit);
  return data.test > 0 ? hold_out(all, data.test, kTestSeed) : HeldOut{all, nullptr};
}

bool wants_normalising(const DataJob& data, const SampleSpec& spec) {
  return data.normalise && spec.dtype == DType::f32 && data.source != "synthetic";
}

void fill_in_moments(DataJob& data, const Dataset& train) {
  if (!wants_normalising(data, train.spec()) || !data.mean.empty()) return;
  Moments moments = known_moments(data.source);
  if (moments.mean.empty()) moments = measured_moments(train, kMeasuredSamples);
  data.mean = std::move(moments.mean);
  data.std = std::move(moments.std);
}

void check_alike(const SampleSpec& train, const SampleSpec& test) {
  if (train.features != test.features || train.dtype != test.dtype) {
    throw user_error(
        "the training samples are {} and the test samples {}; they must have the same shape and type",
        train.features.str(), test.features.str());
  }
  if (train.classes != test.classes || train.class_names != test.class_names) {
    throw user_error("the training samples have the classes {}, the test samples {}; they must be the same",
                     train.class_names.empty() ? fmt::format("0 … {}", train.classes - 1)
                                               : fmt::format("{}", fmt::join(train.class_names, ", ")),
                     test.class_names.empty() ? fmt::format("0 … {}", test.classes - 1)
                                              : fmt::format("{}", fmt::join(test.class_names, ", ")));
  }
}

}  // namespace

DatasetPtr normalise(const DataJob& data, DatasetPtr samples) {
  if (samples == nullptr || !wants_normalising(data, samples->spec()) || data.mean.empty()) return samples;
  return normalised(std::move(samples), {data.mean.begin(), data.mean.end()},
                    {data.std.begin(), data.std.end()});
}

Datasets open_datasets(DataJob& data, uint64_t seed) {
  auto [rest, test] = split_test(data, seed);
  if (test == nullptr) test = open_test_source(data, seed);
  if (test != nullptr) check_alike(rest->spec(), test->spec());
  HeldOut parts = data.validation > 0 ? hold_out(rest, data.validation, seed) : HeldOut{rest, nullptr};
  fill_in_moments(data, *parts.train);
  if (data.mixing == "by_label") parts.train = by_label(parts.train);
  if (data.augment_padding > 0 || data.augment_flip) {
    parts.train = augmented(parts.train, {.padding = data.augment_padding, .flip = data.augment_flip});
  }
  return {normalise(data, parts.train), normalise(data, parts.validation), normalise(data, test)};
}

DatasetPtr open_test_dataset(const DataJob& data, uint64_t seed) {
  DatasetPtr test = data.test > 0 ? split_test(data, seed).validation : open_test_source(data, seed);
  return normalise(data, std::move(test));
}

std::optional<SampleSpec> spec_without_files(const DataJob& data) {
  SampleSpec spec;
  if (data.source == "synthetic") {
    spec.features = Shape(data.shape);
    spec.dtype = data.vocabulary > 0 ? DType::i32 : DType::f32;
    spec.classes = data.classes;
    if (data.classes == 0) spec.targets = {1};
  } else if (data.source.starts_with("cifar")) {
    spec.features = {3, 32, 32};
    spec.classes = data.source == "cifar10" ? 10 : data.label_set == "coarse" ? 20 : 100;
  } else if (data.source.ends_with("mnist")) {
    spec.features = {1, 28, 28};
    spec.classes = 10;
  } else {
    return std::nullopt;
  }
  return spec;
}

}  // namespace telar
