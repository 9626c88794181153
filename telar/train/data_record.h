#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "telar/train/job.h"
#include "telar/train/pipeline.h"

namespace telar {

/// What identifies the files behind one path of a job. Of a folder of pictures the checksum covers names and
/// sizes, which can be read for a million files; of other files also the first and last 64 KiB. Times and the
/// folder's own location do not matter.
struct SourceFiles {
  int64_t files = 0;
  uint64_t bytes = 0;
  uint32_t crc32 = 0;
  bool operator==(const SourceFiles&) const = default;
};

/// data.json, a file of a run and of each checkpoint: the data on which it was trained, to notice when a
/// resumed run finds others.
struct DataRecord {
  int64_t train = 0;  ///< samples; 0: a stream without an end
  int64_t validation = 0;
  int64_t test = 0;
  std::vector<std::string> class_names;  ///< if the source knows them
  std::map<std::string, SourceFiles>
      sources;  ///< "data.path"; of pictures one for each class, "data.path/cat"
  bool operator==(const DataRecord&) const = default;
};

/// Throws Error (user) if a file cannot be read.
DataRecord data_record(const DataJob& job, const Datasets& data);

/// The files of a stream that say how its messages are read, such as "data.schema", by their contents: on another
/// host they may have other names. Empty for other data. Throws Error (user) if one cannot be read.
std::map<std::string, SourceFiles> format_files(const DataJob& job);

std::string to_json(const DataRecord& record);
/// `source` is the file, for messages. Throws Error (user).
DataRecord data_record_from_json(const std::string& text, const std::string& source);

/// What differs, one text each: "training samples: 181 before, 71 now". `first` and `second` say whose records
/// they are. Empty if nothing differs.
std::vector<std::string> data_differences(const DataRecord& a, const DataRecord& b,
                                          const char* first = "before", const char* second = "now");

}  // namespace telar
