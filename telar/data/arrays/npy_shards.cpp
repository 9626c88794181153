#include "telar/data/arrays/npy_shards.h"

#include <algorithm>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "telar/core/error.h"
#include "telar/data/arrays/npy.h"
#include "telar/data/file_pattern.h"
#include "telar/data/open_files.h"

namespace telar {

namespace {

struct NpyShard {
  NpyArray features;
  NpyArray labels;
};

/// The files of shard s: its features are file 2 s, its labels file 2 s + 1.
std::vector<std::string> files_of(const std::vector<NpyShard>& shards) {
  std::vector<std::string> files;
  for (const NpyShard& shard : shards) {
    files.push_back(shard.features.file);
    files.push_back(shard.labels.file);
  }
  return files;
}

/// The bytes of one entry of axis 0.
size_t entry_bytes(const NpyHeader& header) {
  return static_cast<size_t>(header.shape.elements() / header.shape[0]) * header.element_bytes();
}

class NpyShards : public Dataset {
 public:
  NpyShards(SampleSpec spec, std::vector<NpyShard> shards)
      : spec_(std::move(spec)), shards_(std::move(shards)), files_(files_of(shards_)) {
    for (const NpyShard& shard : shards_) ends_.push_back(size() + shard.features.header.shape[0]);
  }

  int64_t size() const override { return ends_.empty() ? 0 : ends_.back(); }
  const SampleSpec& spec() const override { return spec_; }

  void read(int64_t index, const SampleKey& /*key*/, std::span<std::byte> features,
            std::span<std::byte> label) const override {
    const auto shard = static_cast<size_t>(std::ranges::upper_bound(ends_, index) - ends_.begin());
    const int64_t entry = index - (shard == 0 ? 0 : ends_[shard - 1]);
    read_entry(2 * shard, shards_[shard].features, entry,
               [&](const NpyElements& elements) { read_npy_features(elements, features); });
    read_entry(2 * shard + 1, shards_[shard].labels, entry,
               [&](const NpyElements& elements) { read_npy_labels(elements, spec_.classes, label); });
  }

 private:
  template <typename Take>
  void read_entry(size_t file, const NpyArray& array, int64_t entry, const Take& take) const {
    const size_t bytes = entry_bytes(array.header);
    const auto elements = std::make_unique_for_overwrite<uint8_t[]>(bytes);
    const std::span<uint8_t> all(elements.get(), bytes);
    const size_t offset = array.header.offset + static_cast<size_t>(entry) * bytes;
    files_.read(file, offset, std::as_writable_bytes(all));
    take(NpyElements{array, offset, all});
  }

  SampleSpec spec_;
  std::vector<NpyShard> shards_;
  OpenFiles files_;
  std::vector<int64_t> ends_;  ///< of each shard, the number of samples up to its end
};

NpyArray array_of(const std::string& file) {
  const uint64_t bytes = file_size_of(file);
  std::vector<uint8_t> start(static_cast<size_t>(std::min<uint64_t>(bytes, kNpyHeaderBytes)));
  const OpenFiles files({file});
  files.read(0, 0, std::as_writable_bytes(std::span(start)));
  return {file, parse_npy(start, bytes, file)};
}

/// Throws Error (user) for a file of which the other pattern has no counterpart.
void require_counterparts(const std::map<std::string, std::string>& files,
                          const std::map<std::string, std::string>& others, const std::string& pattern) {
  for (const auto& [text, file] : files) {
    if (!others.contains(text))
      throw user_error("{}: there is no file with '{}' in the place of the '*' of {}; both belong to a shard",
                       file, text, pattern);
  }
}

/// "f4 [3, 4]": type and shape of an entry of axis 0.
std::string form_of(const NpyArray& array) {
  const Shape& shape = array.header.shape;
  return fmt::format("{} {}", array.header.type,
                     Shape(std::vector<int64_t>(shape.begin() + 1, shape.end())).str());
}

void require_same_form(const NpyArray& first, const NpyArray& array) {
  if (form_of(first) == form_of(array)) return;
  throw user_error("{} has samples of {}, but {} of {}; all shards must have the same type and shape",
                   array.file, form_of(array), first.file, form_of(first));
}

}  // namespace

DatasetPtr open_npy_shards(const std::string& features, const std::string& labels, int64_t classes) {
  const auto feature_files = files_of_pattern(features);
  const auto label_files = files_of_pattern(labels);
  require_counterparts(feature_files, label_files, labels);
  require_counterparts(label_files, feature_files, features);
  std::vector<NpyShard> shards;
  SampleSpec spec;
  for (const auto& [text, file] : feature_files) {
    NpyShard shard{array_of(file), array_of(label_files.at(text))};
    const SampleSpec here = npy_spec(shard.features, shard.labels, classes);
    if (shards.empty()) spec = here;
    shards.push_back(std::move(shard));
    require_same_form(shards.front().features, shards.back().features);
    require_same_form(shards.front().labels, shards.back().labels);
  }
  return std::make_shared<NpyShards>(std::move(spec), std::move(shards));
}

}  // namespace telar
