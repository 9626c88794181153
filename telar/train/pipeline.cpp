#include "telar/train/pipeline.h"

#include <algorithm>
#include <array>
#include <iterator>

#include "telar/core/error.h"
#include "telar/data/augmented.h"
#include "telar/data/cached.h"
#include "telar/data/label_sums.h"
#include "telar/data/normalised.h"
#include "telar/data/readable.h"
#include "telar/data/source.h"
#include "telar/data/subset.h"
#include "telar/data/table_rules.h"

namespace telar {

namespace {

constexpr uint64_t kCacheMegabyte = 1 << 20;
constexpr uint64_t kTestSeed =
    0x7e57;  ///< does not depend on the job's seed, so the test samples stay the same

DatasetPtr limited(DatasetPtr data, int64_t limit) {
  if (limit == 0 || limit >= data->size()) return data;
  return first_samples(std::move(data), limit);
}

DatasetPtr in_cache(const DataJob& data, DatasetPtr images) {
  if (!source_type(data.source).file_each || data.cache_mb == 0) return images;
  return cached(std::move(images), static_cast<uint64_t>(data.cache_mb) * kCacheMegabyte);
}

/// The samples of a training source, without those set aside for the test, which `validation` holds.
HeldOut split_test(const DataJob& data, DatasetPtr samples) {
  const DatasetPtr all = limited(in_cache(data, std::move(samples)), data.limit);
  return data.test > 0 ? hold_out(all, data.test, kTestSeed) : HeldOut{all, nullptr};
}

/// Samples that are their own numbers.
class Numbers final : public Dataset {
 public:
  explicit Numbers(int64_t size) : size_(size) {}
  int64_t size() const override { return size_; }
  const SampleSpec& spec() const override { return spec_; }
  void read(int64_t index, const SampleKey& /*key*/, std::span<std::byte> features,
            std::span<std::byte> /*label*/) const override {
    as_doubles(features)[0] = static_cast<double>(index);
  }

 private:
  int64_t size_;
  SampleSpec spec_ = {.features = {1}, .wide = true, .classes = 1};
};

/// Without the samples that are set aside for test and validation.
std::vector<int64_t> training_rows(const DataJob& data, uint64_t seed, int64_t size) {
  const DatasetPtr rest = split_test(data, std::make_shared<Numbers>(size)).train;
  const DatasetPtr train = data.validation > 0 ? hold_out(rest, data.validation, seed).train : rest;
  std::vector<int64_t> rows;
  double number = 0;
  std::array<std::byte, sizeof(int32_t)> label{};
  for (int64_t i = 0; i < train->size(); ++i) {
    train->read(i, {}, std::as_writable_bytes(std::span(&number, 1)), label);
    rows.push_back(static_cast<int64_t>(number));
  }
  return rows;
}

OpenedSource open_part(const DataJob& data, uint64_t seed, const PictureListing& listing, Split part) {
  SourceRequest request{data.options, seed, listing, data.rules};
  // Of spread data, no process has all training samples.
  if (!data.spread) request.training_rows = [&](int64_t size) { return training_rows(data, seed, size); };
  return source_type(data.source).open(request, part);
}

bool wants_normalising(const DataJob& data, const SampleSpec& spec) {
  return data.normalise && spec.dtype == DType::f32 && !source_type(data.source).generated;
}

void fill_in_moments(DataJob& data, uint64_t seed, Datasets& parts) {
  const Dataset& train = *parts.train;
  if (!wants_normalising(data, train.spec()) || !data.mean.empty()) return;
  if (!measures_moments(data, train.spec())) {
    data.mean = source_type(data.source).moments.mean;
    data.std = source_type(data.source).moments.std;
    return;
  }
  const MeasuredMoments measured = measure_moments(data, train, seed);
  if (measured.weight != 1)
    parts.notes.push_back(fmt::format(
        "data.mean and data.std are measured on {} of the {} training images, which the seed selects",
        kMeasuredPictures, train.size()));
  take_moments(data, moments_of(measured.sums), parts.notes);
}

/// "column 'a'", "channel 3".
std::string channel_text(const DataJob& data, size_t channel) {
  std::vector<std::string> names;
  if (data.options.has("columns")) names = data.options.texts("columns");
  if (data.options.has("encoding") && !data.options.texts("encoding").empty()) {
    names.clear();
    for (const std::string& rule : data.options.texts("encoding"))
      std::ranges::move(ColumnRule::of(rule).names(), std::back_inserter(names));
  }
  return channel < names.size() ? fmt::format("column '{}'", names[channel])
                                : fmt::format("channel {}", channel);
}

/// Finds the samples of a part that cannot be read, or throws for the first of them.
class PartCheck {
 public:
  PartCheck(const DataJob& data, const SampleChecks* checks)
      : skip_(data.on_error == "skip"),
        checks_(source_type(data.source).file_each && checks != nullptr && checks->decode ? checks
                                                                                          : nullptr) {}

  std::vector<int64_t> train(const DatasetPtr& samples) {
    return skip_ ? unreadable(samples, "training") : std::vector<int64_t>{};
  }
  std::vector<int64_t> validation(const DatasetPtr& samples) { return unreadable(samples, "validation"); }
  std::vector<int64_t> test(const DatasetPtr& samples) { return unreadable(samples, "test"); }

 private:
  static constexpr int64_t kNamed = 10;  ///< samples that are named; the others are only counted

  std::vector<int64_t> unreadable(const DatasetPtr& samples, const char* part) {
    if (checks_ == nullptr || samples == nullptr) return {};
    ReadCheck options{.threads = checks_->threads, .watch = {}};
    if (checks_->watch) {
      options.watch = [&](int64_t done) {
        return checks_->watch(fmt::format("checked {} of {} {} samples", done, samples->size(), part));
      };
    }
    const std::vector<UnreadableSample> found = unreadable_samples(*samples, options);
    if (!found.empty() && !skip_) {
      throw user_error("{}; {} of the {} {} samples cannot be read; data.on_error: skip leaves them out",
                       found.front().reason, found.size(), samples->size(), part);
    }
    if (!found.empty() && static_cast<int64_t>(found.size()) == samples->size()) {
      throw user_error("none of the {} {} samples can be read; the first: {}", found.size(), part,
                       found.front().reason);
    }
    std::vector<int64_t> indices;
    for (const UnreadableSample& sample : found) {
      indices.push_back(sample.index);
      if (++named_ <= kNamed) warn(fmt::format("left out of the {} samples: {}", part, sample.reason));
      if (named_ == kNamed + 1) warn("further samples are left out; the summary has their number");
    }
    return indices;
  }

  void warn(const std::string& text) const {
    if (checks_->warn) checks_->warn(text);
  }

  bool skip_;
  const SampleChecks* checks_;
  int64_t named_ = 0;
};

}  // namespace

std::string Datasets::columns_text() const {
  if (described.empty()) return "";
  std::vector<std::vector<std::string>> rows = {
      {"column", "kind", "missing", "min", "mean", "max", "example"}};
  rows.insert(rows.end(), described.begin(), described.end());
  return aligned(rows);
}

void require_alike(const SampleSpec& train, const SampleSpec& test) {
  if (train.features != test.features || train.dtype != test.dtype) {
    throw user_error(
        "the training samples are {} and the test samples {}; they must have the same shape and type",
        train.features.str(), test.features.str());
  }
  const bool named = !train.class_names.empty() || test.class_names.empty();  // a stream knows no names
  if (train.classes != test.classes || (named && train.class_names != test.class_names)) {
    throw user_error("the training samples have the classes {}, the test samples {}; they must be the same",
                     train.class_names.empty() ? fmt::format("0 … {}", train.classes - 1)
                                               : fmt::format("{}", fmt::join(train.class_names, ", ")),
                     test.class_names.empty() ? fmt::format("0 … {}", test.classes - 1)
                                              : fmt::format("{}", fmt::join(test.class_names, ", ")));
  }
}

DatasetPtr normalise(const DataJob& data, DatasetPtr samples) {
  if (samples == nullptr) return samples;
  const bool focal = data.loss == "focal";
  if (samples->spec().classes == 0 && (focal || data.loss == "binary_cross_entropy"))
    samples = with_probabilities(std::move(samples), focal);
  if (!wants_normalising(data, samples->spec()) || data.mean.empty())
    return without_width(std::move(samples));
  return normalised(std::move(samples), data.mean, data.std,
                    data.rules == kFirstRules ? Normalising::rounded : Normalising::exact);
}

PictureListing picture_listing(const DataJob& data, const SampleChecks* checks) {
  PictureListing listing{.check_headers = data.on_error == "stop", .reading = {}};
  if (checks == nullptr) return listing;
  listing.reading.threads = checks->threads;
  if (checks->watch) {
    listing.reading.watch = [checks](int64_t done) {
      return checks->watch(fmt::format("read the headers of {} images", done));
    };
  }
  return listing;
}

LeftOut find_unreadable(const DataJob& data, const SampleChecks* checks, const Datasets& divided) {
  PartCheck check(data, checks);
  LeftOut found;
  found.validation = check.validation(divided.validation);
  found.test = check.test(divided.test);
  found.train = check.train(divided.train);
  return found;
}

JobSources open_sources(DataJob& data, uint64_t seed, const PictureListing& listing) {
  JobSources sources{open_part(data, seed, listing, Split::train), {}};
  for (const auto& [option, value] : sources.train.decided) data.options.set(option, value);
  if (data.test == 0) sources.test = open_part(data, seed, listing, Split::test);
  return sources;
}

Datasets divide(const DataJob& data, uint64_t seed, JobSources sources) {
  HeldOut tested = split_test(data, std::move(sources.train.samples));
  Datasets parts;
  parts.notes = std::move(sources.train.notes);
  parts.notes.insert(parts.notes.end(), sources.test.notes.begin(), sources.test.notes.end());
  parts.described = std::move(sources.train.described);
  parts.pictures = std::move(sources.train.pictures);
  parts.test = data.test > 0 ? std::move(tested.validation) : std::move(sources.test.samples);
  parts.test_pictures = std::move(sources.test.pictures);
  const DatasetPtr rest = std::move(tested.train);
  if (parts.test != nullptr) require_alike(rest->spec(), parts.test->spec());
  HeldOut validated = data.validation > 0 ? hold_out(rest, data.validation, seed) : HeldOut{rest, nullptr};
  parts.train = std::move(validated.train);
  parts.validation = std::move(validated.validation);
  return parts;
}

void leave_out_samples(Datasets& parts, LeftOut samples) {
  parts.left_out = std::move(samples);
  parts.train = without_samples(std::move(parts.train), parts.left_out.train);
  parts.validation = without_samples(std::move(parts.validation), parts.left_out.validation);
  parts.test = without_samples(std::move(parts.test), parts.left_out.test);
}

bool measures_moments(const DataJob& data, const SampleSpec& spec) {
  return wants_normalising(data, spec) && data.mean.empty() && source_type(data.source).moments.mean.empty();
}

MeasuredMoments measure_moments(const DataJob& data, const Dataset& train, uint64_t seed) {
  if (!source_type(data.source).file_each || train.size() <= kMeasuredPictures) return {moment_sums(train)};
  return {moment_sums(train, kMeasuredPictures, seed),
          static_cast<double>(train.size()) / static_cast<double>(kMeasuredPictures)};
}

void take_moments(DataJob& data, Moments moments, std::vector<std::string>& notes) {
  constexpr size_t kShown = 5;
  std::vector<std::string> constant;
  for (const size_t channel : moments.constant)
    if (constant.size() < kShown) constant.push_back(channel_text(data, channel));
  if (moments.constant.size() > kShown)
    constant.push_back(fmt::format("{} more", moments.constant.size() - kShown));
  if (!constant.empty())
    notes.push_back(fmt::format(
        "the training samples have one value only in {}; its deviation is taken for 1, so the model learns nothing from it",
        fmt::join(constant, ", ")));
  data.mean = std::move(moments.mean);
  data.std = std::move(moments.std);
}

void prepare(DataJob& data, uint64_t seed, Datasets& parts) {
  fill_in_moments(data, seed, parts);
  if (data.mixing == "by_label") parts.train = by_label(parts.train);
  if (data.augment_padding > 0 || data.augment_flip) {
    parts.train =
        augmented(without_width(parts.train), {.padding = data.augment_padding, .flip = data.augment_flip});
  }
  for (DatasetPtr* part : {&parts.train, &parts.validation, &parts.test})
    *part = normalise(data, std::move(*part));
}

Datasets open_datasets(DataJob& data, uint64_t seed, const PictureListing& listing,
                       const LeaveOut& leave_out) {
  Datasets opened = divide(data, seed, open_sources(data, seed, listing));
  // After the division, so that a sample that is left out moves no other one into another part.
  leave_out_samples(opened, leave_out(opened));
  prepare(data, seed, opened);
  return opened;
}

Datasets open_datasets(DataJob& data, uint64_t seed, const SampleChecks* checks) {
  return open_datasets(data, seed, picture_listing(data, checks),
                       [&](const Datasets& divided) { return find_unreadable(data, checks, divided); });
}

DatasetPtr open_test_dataset(const DataJob& data, uint64_t seed, const SampleChecks* checks) {
  if (data.spread)
    throw user_error(
        "the test samples are those of several processes (data.spread is true), and this is one alone; give it test samples with --data, or with --set data.spread=false and the paths of files that it has");
  const PictureListing listing = picture_listing(data, checks);
  OpenedSource source = open_part(data, seed, listing, data.test > 0 ? Split::train : Split::test);
  if (checks != nullptr && checks->warn) std::ranges::for_each(source.notes, checks->warn);
  DatasetPtr test =
      data.test > 0 ? split_test(data, std::move(source.samples)).validation : std::move(source.samples);
  const std::vector<int64_t> left_out = PartCheck(data, checks).test(test);
  return normalise(data, without_samples(std::move(test), left_out));
}

std::optional<SampleSpec> spec_without_files(const DataJob& data) {
  const SourceType& type = source_type(data.source);
  return type.spec ? std::optional(type.spec(data.options)) : std::nullopt;
}

}  // namespace telar
