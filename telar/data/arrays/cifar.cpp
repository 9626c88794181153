#include "telar/data/arrays/cifar.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "telar/core/error.h"
#include "telar/data/pictures/byte_images.h"

namespace telar {
namespace {

constexpr size_t kPixels = size_t{3} * 32 * 32;

struct Format {
  size_t label_bytes;  ///< before the pixels of a record
  size_t label_at;     ///< index of the one to use
  int64_t classes;
  const char* set;
  const char* folder;  ///< name in the published archive
};

Format format_of(CifarLabels labels) {
  if (labels == CifarLabels::ten) return {1, 0, 10, "CIFAR-10", "cifar-10-batches-bin"};
  if (labels == CifarLabels::fine) return {2, 1, 100, "CIFAR-100", "cifar-100-binary"};
  return {2, 0, 20, "CIFAR-100", "cifar-100-binary"};
}

std::vector<std::string> file_names(CifarLabels labels, Split split) {
  if (labels != CifarLabels::ten) return {split == Split::train ? "train.bin" : "test.bin"};
  if (split == Split::test) return {"test_batch.bin"};
  return {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin", "data_batch_5.bin"};
}

/// Checks the records of one file and appends their labels.
void take_labels(const Bytes& file, const std::string& name, const Format& format,
                 std::vector<int32_t>& labels) {
  const size_t record = format.label_bytes + kPixels;
  if (file.empty()) throw user_error("{}: is empty", name);
  if (file.size() % record != 0) {
    throw user_error(
        "{}: is cut off or not a {} file: its {} bytes are not a whole number of records of {} bytes; the last one begins at offset {}",
        name, format.set, file.size(), record, file.size() / record * record);
  }
  for (size_t at = format.label_at; at < file.size(); at += record) {
    if (file[at] >= format.classes) {
      throw user_error("{}: label {} at offset {} is outside the {} classes of {}", name, file[at], at,
                       format.classes, format.set);
    }
    labels.push_back(file[at]);
  }
}

}  // namespace

DatasetPtr cifar_from_bytes(const std::vector<Bytes>& files, const std::vector<std::string>& names,
                            CifarLabels labels) {
  const Format format = format_of(labels);
  std::vector<int32_t> values;
  size_t total = 0;
  for (size_t i = 0; i < files.size(); ++i) {
    take_labels(files[i], names[i], format, values);
    total += files[i].size();
  }
  Bytes storage;
  storage.reserve(total);
  for (const Bytes& file : files) storage.insert(storage.end(), file.begin(), file.end());
  SampleSpec spec;
  spec.features = {3, 32, 32};
  spec.classes = format.classes;
  return byte_images(std::move(spec), std::move(storage), {format.label_bytes, format.label_bytes + kPixels},
                     std::move(values));
}

DatasetPtr open_cifar(const std::string& folder, Split split, CifarLabels labels) {
  namespace fs = std::filesystem;
  if (!fs::is_directory(folder)) throw user_error("{}: there is no such folder", folder);
  const fs::path inner = fs::path(folder) / format_of(labels).folder;
  const fs::path base = fs::is_directory(inner) ? inner : fs::path(folder);
  std::vector<Bytes> files;
  std::vector<std::string> paths;
  for (const std::string& name : file_names(labels, split)) {
    paths.push_back((base / name).string());
    files.push_back(read_file(paths.back()));
  }
  return cifar_from_bytes(files, paths, labels);
}

}  // namespace telar
