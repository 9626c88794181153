#include "telar/train/sources.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "telar/core/buffer.h"
#include "telar/core/error.h"
#include "telar/data/cifar.h"
#include "telar/data/csv.h"
#include "telar/data/idx.h"
#include "telar/data/npy.h"
#include "telar/data/synthetic.h"

namespace telar {

namespace {

CifarLabels cifar_labels(const DataJob& data) {
  if (data.source == "cifar10") return CifarLabels::ten;
  return data.label_set == "coarse" ? CifarLabels::coarse : CifarLabels::fine;
}

CsvOptions csv_options(const DataJob& data) {
  return {
      .header = data.header, .label = data.label, .separator = separator_of(data), .classes = data.classes};
}

Source open_images(const DataJob& data, const std::string& path, const PictureListing& listing) {
  PictureListPtr list = list_pictures(path, listing);
  DatasetPtr samples =
      open_pictures(list, {.height = data.shape[1], .width = data.shape[2], .channels = data.shape[0]});
  return {std::move(samples), std::move(list)};
}

DatasetPtr open_synthetic(const DataJob& data, uint64_t seed, int64_t first, int64_t samples) {
  return synthetic({.samples = samples,
                    .features = Shape(data.shape),
                    .classes = data.classes,
                    .seed = seed,
                    .first = first,
                    .vocabulary = data.vocabulary});
}

int64_t idx_classes(const DataJob& data) { return data.source == "idx" ? data.classes : 10; }

DatasetPtr open_train_samples(const DataJob& data, uint64_t seed) {
  if (data.source == "synthetic") return open_synthetic(data, seed, 0, data.samples);
  if (data.source == "csv") return open_csv(data.path, csv_options(data));
  if (data.source == "npy") return open_npy(data.path, data.label_path, data.classes);
  if (data.source.starts_with("cifar")) return open_cifar(data.path, Split::train, cifar_labels(data));
  return open_idx_folder(data.path, Split::train, idx_classes(data));
}

DatasetPtr open_test_samples(const DataJob& data, uint64_t seed) {
  if (data.source == "synthetic") {
    return data.test_samples == 0 ? nullptr : open_synthetic(data, seed, data.samples, data.test_samples);
  }
  if (data.source.starts_with("cifar")) return open_cifar(data.path, Split::test, cifar_labels(data));
  if (data.source == "csv" || data.source == "npy") {
    if (data.test_path.empty()) return nullptr;
    if (data.source == "csv") return open_csv(data.test_path, csv_options(data));
    return open_npy(data.test_path, data.test_label_path, data.classes);
  }
  return open_idx_folder(data.path, Split::test, idx_classes(data));
}

}  // namespace

Source open_train_source(const DataJob& data, uint64_t seed, const PictureListing& listing) {
  if (data.source == "images") return open_images(data, data.path, listing);
  return {open_train_samples(data, seed), nullptr};
}

Source open_test_source(const DataJob& data, uint64_t seed, const PictureListing& listing) {
  if (data.source != "images") return {open_test_samples(data, seed), nullptr};
  return data.test_path.empty() ? Source{} : open_images(data, data.test_path, listing);
}

char separator_of(const DataJob& data) {
  if (data.separator == "semicolon") return ';';
  if (data.separator == "tab") return '\t';
  return data.separator == "space" ? ' ' : ',';
}

Moments known_moments(const std::string& source) {
  if (source == "fashion-mnist") return {{0.2860}, {0.3530}};
  if (source == "mnist") return {{0.1307}, {0.3081}};
  if (source == "cifar10") return {{0.4914, 0.4822, 0.4465}, {0.2470, 0.2435, 0.2616}};
  if (source == "cifar100") return {{0.5071, 0.4866, 0.4409}, {0.2673, 0.2564, 0.2762}};
  return {};
}

Moments measured_moments(const Dataset& data, int64_t most) {
  const SampleSpec& spec = data.spec();
  const auto channels = static_cast<size_t>(spec.features[0]);
  const size_t plane = static_cast<size_t>(spec.features.elements()) / channels;
  Buffer features(spec.feature_bytes());
  Buffer label(spec.label_bytes());
  std::vector<double> sum(channels);
  std::vector<double> squares(channels);
  const int64_t count = std::min(data.size(), most);
  for (int64_t i = 0; i < count; ++i) {
    data.read(i * data.size() / count, {}, {features.data(), features.size()}, {label.data(), label.size()});
    const std::span<const float> values = features.as<float>();
    for (size_t channel = 0; channel < channels; ++channel) {
      for (const float value : values.subspan(channel * plane, plane)) {
        sum[channel] += value;
        squares[channel] += static_cast<double>(value) * value;
      }
    }
  }
  Moments moments;
  const auto total = static_cast<double>(count) * static_cast<double>(plane);
  for (size_t channel = 0; channel < channels; ++channel) {
    const double mean = sum[channel] / total;
    const double variance = squares[channel] / total - mean * mean;
    moments.mean.push_back(mean);
    moments.std.push_back(variance > 1e-12 * std::max(1.0, mean * mean) ? std::sqrt(variance) : 1);
  }
  return moments;
}

}  // namespace telar
