#include "telar/train/data_record.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "telar/core/error.h"
#include "telar/data/file_pattern.h"
#include "telar/data/files.h"
#include "telar/data/permutation.h"
#include "telar/data/pictures/image_folder.h"
#include "telar/data/source.h"
#include "telar/io/json_fields.h"
#include "telar/train/file_digest.h"

namespace telar {

namespace {

namespace fs = std::filesystem;

/// The checksum of the first and the last 64 KiB.
uint32_t ends_of(const fs::path& path, uint64_t bytes, uint32_t before) {
  constexpr uint64_t kEnd = 1 << 16;
  std::ifstream file(path, std::ios::binary);
  if (!file) throw user_error("{}: cannot be opened", path.string());
  std::string piece(kEnd, '\0');
  const auto add = [&](uint64_t from) {
    file.clear();
    file.seekg(static_cast<std::streamoff>(from));
    file.read(piece.data(), static_cast<std::streamsize>(kEnd));
    before = crc32_of({piece.data(), static_cast<size_t>(file.gcount())}, before);
  };
  add(0);
  if (bytes > kEnd) add(std::max(kEnd, bytes - kEnd));
  return before;
}

void add_name(SourceFiles& files, const fs::path& path, uint64_t bytes) {
  files.crc32 = crc32_of(fmt::format("{} {}\n", path.filename().string(), bytes), files.crc32);
  ++files.files;
  files.bytes += bytes;
}

void add_file(SourceFiles& files, const fs::path& path) {
  const uint64_t bytes = fs::file_size(path);
  add_name(files, path, bytes);
  files.crc32 = ends_of(path, bytes, files.crc32);
}

/// The files of a folder that belong to a source.
SourceFiles files_of_set(const fs::path& folder, const SourceType& type) {
  SourceFiles files;
  for (const fs::directory_entry& entry : visible_entries(folder)) {
    if (entry.is_regular_file() && type.owns && type.owns(entry.path().filename().string()))
      add_file(files, entry.path());
  }
  return files;
}

void add_source(std::map<std::string, SourceFiles>& sources, const std::string& key, const fs::path& path,
                const SourceType& type) {
  if (path.empty()) return;
  if (fs::is_directory(path) && type.class_folders) {
    for (const fs::directory_entry& entry : visible_entries(path))
      if (entry.is_directory())
        sources[key + "/" + entry.path().filename().string()] = files_of_set(entry.path(), type);
  } else if (fs::is_directory(path)) {
    sources[key] = files_of_set(path, type);
  } else if (is_file_pattern(path.string())) {
    for (const auto& [text, file] : files_of_pattern(path.string())) add_file(sources[key], file);
  } else {
    add_file(sources[key], path);
  }
}

void add_pictures(std::map<std::string, SourceFiles>& sources, const std::string& key,
                  const PictureListPtr& pictures) {
  if (pictures == nullptr) return;
  for (const PictureFile& file : pictures->files)
    add_name(sources[key + "/" + pictures->classes[static_cast<size_t>(file.label)]], file.path, file.bytes);
}

std::map<std::string, SourceFiles> sources_of(const DataJob& job, const Datasets& data) {
  std::map<std::string, SourceFiles> sources;
  const SourceType& type = source_type(job.source);
  if (type.file_each) {
    add_pictures(sources, "data.path", data.pictures);
    add_pictures(sources, "data.test_path", data.test_pictures);
    return sources;
  }
  sources = format_files(job);
  for (const std::string& option : type.paths)
    if (!sources.contains("data." + option))
      add_source(sources, "data." + option, job.options.text(option), type);
  return sources;
}

int64_t samples_of(const DatasetPtr& data) { return data == nullptr ? 0 : data->size(); }

/// 0: there is no end.
int64_t training_samples(const Datasets& data) {
  if (data.stream == nullptr) return samples_of(data.train);
  const std::optional<PassSize> size = data.stream->size(0);
  return size ? size->samples : 0;
}

SourceFiles files_from(const nlohmann::json& json, const std::string& name, const JsonFields& fields) {
  const auto number = [&](const char* field, uint64_t most) {
    const bool right = json.is_object() && json.contains(field) && json.at(field).is_number_unsigned() &&
                       json.at(field).get<uint64_t>() <= most;
    if (!right)
      throw user_error("{}: sources.{} must have {}, an integer from 0 to {}", fields.source(), name, field,
                       most);
    return json.at(field).get<uint64_t>();
  };
  return {static_cast<int64_t>(number("files", std::numeric_limits<int64_t>::max())),
          number("bytes", std::numeric_limits<uint64_t>::max()),
          static_cast<uint32_t>(number("crc32", std::numeric_limits<uint32_t>::max()))};
}

/// Collects differences as texts: "training samples: 181 before, 71 now".
class Differences {
 public:
  Differences(const char* first, const char* second) : first_(first), second_(second) {}

  template <typename T>
  void compare(const std::string& what, const T& a, const T& b) {
    if (a != b) texts_.push_back(fmt::format("{}: {} {}, {} {}", what, a, first_, b, second_));
  }

  void compare_files(const std::string& name, const SourceFiles& a, const SourceFiles& b) {
    if (a.files != b.files) return compare("files of " + name, a.files, b.files);
    if (a.bytes != b.bytes) return compare("bytes of " + name, a.bytes, b.bytes);
    compare("checksum of " + name, fmt::format("{:08x}", a.crc32), fmt::format("{:08x}", b.crc32));
  }

  std::vector<std::string> texts() && { return std::move(texts_); }

 private:
  const char* first_;
  const char* second_;
  std::vector<std::string> texts_;
};

std::string names_text(const std::vector<std::string>& names) {
  return names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace

DataRecord data_record(const DataJob& job, const Datasets& data) {
  try {
    return {training_samples(data), samples_of(data.validation), samples_of(data.test),
            data.spec().class_names, sources_of(job, data)};
  } catch (const fs::filesystem_error& error) {
    throw user_error("{}: cannot be read: {}", error.path1().string(), error.code().message());
  }
}

std::map<std::string, SourceFiles> format_files(const DataJob& job) {
  std::map<std::string, SourceFiles> files;
  const SourceType& type = source_type(job.source);
  if (!type.open_stream) return files;
  for (const std::string& option : type.paths) {
    const std::string& path = job.options.text(option);
    const bool of_test = std::ranges::find(type.test_paths, option) != type.test_paths.end();
    if (path.empty() || of_test) continue;
    const Bytes bytes = read_file(path);
    files["data." + option] = {1, bytes.size(),
                               crc32_of({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, 0)};
  }
  return files;
}

std::string to_json(const DataRecord& record) {
  nlohmann::ordered_json json;
  json["train"] = record.train;
  json["validation"] = record.validation;
  json["test"] = record.test;
  json["class_names"] = record.class_names;
  json["sources"] = nlohmann::ordered_json::object();
  for (const auto& [name, files] : record.sources)
    json["sources"][name] = {{"files", files.files}, {"bytes", files.bytes}, {"crc32", files.crc32}};
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

DataRecord data_record_from_json(const std::string& text, const std::string& source) {
  const JsonFields fields(text, source);
  DataRecord record;
  record.train = fields.integer("train", 0, kMostSamples);
  record.validation = fields.integer("validation", 0, kMostSamples);
  record.test = fields.integer("test", 0, kMostSamples);
  record.class_names = fields.texts("class_names");
  const nlohmann::json& sources = fields.value("sources");
  if (!sources.is_object()) throw fields.wrong("sources", "an object with the files of each path");
  for (const auto& [name, files] : sources.items()) record.sources[name] = files_from(files, name, fields);
  return record;
}

std::vector<std::string> data_differences(const DataRecord& a, const DataRecord& b, const char* first,
                                          const char* second) {
  Differences found(first, second);
  found.compare("training samples", a.train, b.train);
  found.compare("validation samples", a.validation, b.validation);
  found.compare("test samples", a.test, b.test);
  found.compare("classes", names_text(a.class_names), names_text(b.class_names));
  std::set<std::string> names;
  for (const auto* record : {&a, &b})
    for (const auto& [name, files] : record->sources) names.insert(name);
  const auto files_in = [](const DataRecord& record, const std::string& name) {
    const auto found_files = record.sources.find(name);
    return found_files == record.sources.end() ? SourceFiles{} : found_files->second;
  };
  for (const std::string& name : names) found.compare_files(name, files_in(a, name), files_in(b, name));
  return std::move(found).texts();
}

}  // namespace telar
