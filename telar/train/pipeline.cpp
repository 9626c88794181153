#include "telar/train/pipeline.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <iterator>
#include <numeric>
#include <optional>

#include "telar/core/error.h"
#include "telar/data/cached.h"
#include "telar/data/division.h"
#include "telar/data/normalised.h"
#include "telar/data/pictures/augmented.h"
#include "telar/data/readable.h"
#include "telar/data/selection.h"
#include "telar/data/source.h"
#include "telar/data/subset.h"
#include "telar/data/tables/label_sums.h"
#include "telar/data/tables/table_rules.h"

namespace telar {

namespace {

constexpr uint64_t kCacheMegabyte = 1 << 20;
constexpr uint64_t kTestSeed =
    0x7e57;  ///< does not depend on the job's seed, so the test samples stay the same

/// What data.limit leaves of so many samples: the first ones, or of samples in the order of their classes
/// some of each class.
EvenNumbers limited(const DataJob& data, int64_t size) {
  const int64_t count = data.limit > 0 ? std::min(size, data.limit) : size;
  const SourceType& type = source_type(data.source);
  const bool sorted = data.rules >= kEvenLimitRules && (type.class_folders || type.file_each) &&
                      std::filesystem::is_directory(data.options.text("path"));
  return {sorted ? size : count, count};
}

DatasetPtr limited(const DataJob& data, DatasetPtr samples) {
  const EvenNumbers numbers = limited(data, samples->size());
  if (numbers.count() == samples->size()) return samples;
  return even_samples(std::move(samples), numbers);
}

DatasetPtr in_cache(const DataJob& data, DatasetPtr images) {
  if (!source_type(data.source).file_each || data.cache_mb == 0) return images;
  return cached(std::move(images), static_cast<uint64_t>(data.cache_mb) * kCacheMegabyte);
}

/// The parts of the samples of a training source, by their numbers.
struct PartNumbers {
  std::optional<Selection> train;  ///< absent: all samples
  std::optional<Selection> validation;
  std::optional<Selection> test;
};

PartNumbers parts_by_column(const SplitKeys& keys) {
  const auto size = std::ssize(keys);
  std::array<std::vector<int64_t>, 3> numbers;
  for (int64_t i = 0; i < size; ++i) numbers[static_cast<size_t>(keys[static_cast<size_t>(i)])].push_back(i);
  if (numbers[kTrainingPart].empty())
    throw user_error("data.split_column: no row is of the part train, so there is nothing to train on");
  const auto selection = [&](SplitPart part) {
    return numbers[part].empty() ? std::nullopt : std::optional(Selection(size, numbers[part]));
  };
  return {selection(kTrainingPart), selection(kValidationPart), selection(kTestPart)};
}

template <typename Numbers>
SplitKeys chosen_keys(const SplitKeys& keys, const Numbers& numbers) {
  SplitKeys chosen;
  for (int64_t i = 0; i < numbers.count() && !keys.empty(); ++i)
    chosen.push_back(keys[static_cast<size_t>(numbers[i])]);
  return chosen;
}

/// `limited`: what data.limit leaves. `keys`: of all samples; see SplitKeys.
PartNumbers parts_of(const DataJob& data, uint64_t seed, const EvenNumbers& limited, SplitKeys keys) {
  const int64_t size = limited.count();
  const SplitBy by = split_named(data.split);
  keys = chosen_keys(keys, limited);
  if (by == SplitBy::column) return parts_by_column(keys);
  if (by == SplitBy::time && keys.empty()) {
    keys.resize(static_cast<size_t>(size));
    std::iota(keys.begin(), keys.end(), int64_t{0});
  }
  PartNumbers parts;
  if (data.test > 0) {
    DividedSamples tested = divide_samples(size, by, keys, {.fraction = data.test}, kTestSeed);
    parts.train = std::move(tested.train);
    parts.test = std::move(tested.held_out);
    keys = chosen_keys(keys, *parts.train);
  }
  if (data.validation == 0 && data.folds == 0) return parts;
  if (data.split_seed != kSeedOfTraining) seed = static_cast<uint64_t>(data.split_seed);
  const HeldOutShare share{.fraction = data.validation, .folds = data.folds, .fold = data.fold};
  DividedSamples rest = divide_samples(parts.train ? parts.train->count() : size, by, keys, share, seed);
  parts.validation = parts.train ? parts.train->at(rest.held_out) : std::move(rest.held_out);
  parts.train = parts.train ? parts.train->at(rest.train) : std::move(rest.train);
  return parts;
}

/// The class of each sample; of pictures by the list of their files, others are read.
SplitKeys classes_of(const OpenedSource& source) {
  SplitKeys keys;
  if (source.pictures != nullptr) {
    for (const PictureFile& file : source.pictures->files) keys.push_back(file.label);
    return keys;
  }
  const std::vector<int32_t> labels = labels_of(*source.samples);
  return {labels.begin(), labels.end()};
}

/// Whether the test samples are among those of data.path.
bool tests_on_training_files(const DataJob& data) {
  return data.test > 0 || (data.splits_by_column() && data.options.text_or("test_path", "").empty());
}

/// Without the samples that are set aside for test and validation.
std::vector<int64_t> training_rows(const DataJob& data, uint64_t seed, int64_t size, const SplitKeys& keys) {
  const EvenNumbers all = limited(data, size);
  const std::optional<Selection> train = parts_of(data, seed, all, keys).train;
  std::vector<int64_t> rows(static_cast<size_t>(train ? train->count() : all.count()));
  for (size_t i = 0; i < rows.size(); ++i)
    rows[i] = all[train ? (*train)[static_cast<int64_t>(i)] : static_cast<int64_t>(i)];
  return rows;
}

OpenedSource open_part(const DataJob& data, uint64_t seed, const PictureListing& listing, Split part) {
  SourceRequest request{data.options, seed, listing, data.rules};
  // Of spread data, no process has all training samples.
  if (!data.spread) {
    request.training_rows = [&](int64_t size, const SplitKeys& keys) {
      return training_rows(data, seed, size, keys);
    };
  }
  request.split = split_named(data.split);
  request.sets_aside = data.validates() || data.test > 0;
  OpenedSource source = source_type(data.source).open(request, part);
  if (part == Split::train && request.split == SplitBy::stratified && source.keys.empty())
    source.keys = classes_of(source);
  return source;
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
  if (train.labels != test.labels)
    throw user_error("a label of the training samples is {}, one of the test samples {}; they must be alike",
                     train.labels.str(), test.labels.str());
  const bool named = !train.class_names.empty() || test.class_names.empty();  // a stream knows no names
  if (train.classes != test.classes || (named && train.class_names != test.class_names)) {
    throw user_error("the training samples have the classes {}, the test samples {}; they must be the same",
                     train.class_names.empty() ? fmt::format("0 … {}", train.classes - 1)
                                               : fmt::format("{}", fmt::join(train.class_names, ", ")),
                     test.class_names.empty() ? fmt::format("0 … {}", test.classes - 1)
                                              : fmt::format("{}", fmt::join(test.class_names, ", ")));
  }
}

FeatureScale scale_of(const DataJob& data, const SampleSpec& spec) {
  if (!wants_normalising(data, spec)) return {};
  return {data.mean, data.std, data.rules == kFirstRules ? Normalising::rounded : Normalising::exact};
}

DatasetPtr normalise(const DataJob& data, DatasetPtr samples) {
  if (samples == nullptr) return samples;
  const bool focal = data.loss == "focal";
  if (samples->spec().classes == 0 && (focal || data.loss == "binary_cross_entropy"))
    samples = with_probabilities(std::move(samples), focal);
  const FeatureScale scale = scale_of(data, samples->spec());
  if (scale.mean.empty()) return without_width(std::move(samples));
  return normalised(std::move(samples), scale.mean, scale.std, scale.how);
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
  if (!tests_on_training_files(data)) sources.test = open_part(data, seed, listing, Split::test);
  return sources;
}

Datasets divide(const DataJob& data, uint64_t seed, JobSources sources) {
  const EvenNumbers limit = limited(data, sources.train.samples->size());
  const DatasetPtr all = limited(data, in_cache(data, std::move(sources.train.samples)));
  if (sources.test.samples != nullptr) require_alike(all->spec(), sources.test.samples->spec());
  PartNumbers numbers = parts_of(data, seed, limit, std::move(sources.train.keys));
  if (numbers.test && sources.test.samples != nullptr)
    throw user_error(
        "data.test_path is set, and {} rows of data.path are of the part test too; give only one of the two",
        numbers.test->count());
  const auto part_of_all = [&](std::optional<Selection>& part) {
    return part ? selected(all, std::move(*part)) : nullptr;
  };
  Datasets parts;
  parts.notes = std::move(sources.train.notes);
  parts.notes.insert(parts.notes.end(), sources.test.notes.begin(), sources.test.notes.end());
  parts.described = std::move(sources.train.described);
  parts.pictures = std::move(sources.train.pictures);
  parts.test = numbers.test ? part_of_all(numbers.test) : std::move(sources.test.samples);
  parts.test_pictures = std::move(sources.test.pictures);
  parts.train = numbers.train ? part_of_all(numbers.train) : all;
  parts.validation = part_of_all(numbers.validation);
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
  const bool divides = tests_on_training_files(data);
  OpenedSource source = open_part(data, seed, listing, divides ? Split::train : Split::test);
  if (checks != nullptr && checks->warn) std::ranges::for_each(source.notes, checks->warn);
  DatasetPtr test = std::move(source.samples);
  if (divides) {
    const EvenNumbers limit = limited(data, test->size());
    const DatasetPtr all = limited(data, in_cache(data, std::move(test)));
    auto numbers = parts_of(data, seed, limit, std::move(source.keys)).test;
    test = numbers ? selected(all, std::move(*numbers)) : nullptr;
  }
  const std::vector<int64_t> left_out = PartCheck(data, checks).test(test);
  return normalise(data, without_samples(std::move(test), left_out));
}

std::optional<SampleSpec> spec_without_files(const DataJob& data) {
  const SourceType& type = source_type(data.source);
  return type.spec ? type.spec(data.options) : std::nullopt;
}

}  // namespace telar
