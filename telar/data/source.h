#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "telar/core/option.h"
#include "telar/data/dataset.h"
#include "telar/data/division.h"
#include "telar/data/files.h"
#include "telar/data/moments.h"
#include "telar/data/pictures/image_folder.h"
#include "telar/data/source_draft.h"
#include "telar/data/streams/stream.h"

namespace telar {

/// The raw samples of a source, without decorators.
struct OpenedSource {
  DatasetPtr samples;            ///< null if the source has no test samples
  PictureListPtr pictures = {};  ///< the files, if each sample is one; otherwise null
  /// Options that the files have decided: names of columns. Further files are opened with them.
  Attributes decided = {};
  std::vector<std::string> notes = {};  ///< sentences for the user on how the files were understood
  /// A table of what was decided of each column of a table: its kind, missing cells, least, mean and greatest
  /// value, and an example; empty if nothing was.
  std::vector<std::vector<std::string>> described = {};
  SplitKeys keys = {};  ///< of each sample; empty if the source has none for SourceRequest::split
};

/// Of so many samples, and what their division depends on, the numbers of those for training.
using TrainingRows = std::function<std::vector<int64_t>(int64_t size, const SplitKeys& keys)>;

/// What a source is opened with.
struct SourceRequest {
  const Attributes& options;  ///< all options of the source
  uint64_t seed = 0;
  PictureListing listing = {};  ///< how files that are one sample each are read
  int64_t rules = kNewestRules;
  /// For decisions that the training samples alone make; empty: they are made, or not known here.
  TrainingRows training_rows = {};
  SplitBy split = SplitBy::random;  ///< by what the samples will be divided
  bool sets_aside = false;          ///< whether samples of `path` are for validation or test
};

/// A file of samples to predict.
struct InputFile {
  std::string path;
  Bytes bytes;     ///< decompressed if it was gzip
  Shape features;  ///< that the model takes
  DType dtype = DType::f32;
  int64_t rules = kNewestRules;      ///< those of the model
  bool bytes_are_fractions = false;  ///< as of the model's own source (SourceType)
  /// Receives sentences for the user on how the file was understood; may be empty.
  std::function<void(const std::string&)> note = {};
  /// Receives the cells of columns that are no features, by name; may be empty.
  std::function<void(const std::pair<std::string, std::vector<std::string>>&)> keep = {};
};

/// How a source reads samples to predict. They have no labels; each gets the label 0.
struct InputFormat {
  std::string described;  ///< "IDX images"
  /// Whether a file is of this format. Absent: its content does not tell, so it must be a model that was
  /// trained on this source.
  std::function<bool(const Bytes&)> recognises = {};
  /// `options`: those with which the model was trained; null if that was another source.
  std::function<DatasetPtr(InputFile file, const Attributes* options)> open = {};
};

/// A source of samples as it describes itself. The keys of a job, their checks and their documentation are
/// made from these descriptions. Some names of options have a meaning for all sources: `classes` (0:
/// regression), `vocabulary` (above 0: features are token ids below it) and `path`.
struct SourceType {
  std::string name;
  std::string summary;           ///< what it reads, as a phrase after its name
  std::string unit = "samples";  ///< what its samples are called
  std::vector<Option> options = {};
  /// The options that are files or folders. A run records what is in them, to notice other data.
  std::vector<std::string> paths = {};
  /// The options in whose place `telar evaluate` puts --data and, if there is a second one, --labels. Empty:
  /// they cannot be replaced.
  std::vector<std::string> test_paths = {};
  /// False: the source has test samples of its own, or none. True: they are further files (test_paths), or
  /// `data.test` sets some of the samples aside.
  bool test_by_user = false;
  bool file_each = false;         ///< each sample is a file, decoded when it is read
  bool class_folders = false;     ///< in a folder, the samples are files in one folder for each class
  bool labels_positions = false;  ///< a sample has a label for each position, so no class of its own
  /// Whether the samples are bytes that are read as v / 255, so that bytes to predict are, too; absent: no.
  std::function<bool(const Attributes& options)> bytes_are_fractions = {};
  bool generated = false;  ///< computed from the options: there are no files, and values are scaled already
  Moments moments = {};    ///< the published ones; empty: they are measured
  /// Throws Error (user): missing or damaged files, options that do not fit them.
  std::function<OpenedSource(const SourceRequest& request, Split part)> open;
  /// The training samples, if they arrive one after another and cannot be read in any order; `open` then
  /// opens only the test samples. The options `start` and `end` have a meaning for all such sources: as
  /// "offsets: [3, 5]" they are decided, otherwise the stream says what it has found. Throws Error (user, run).
  std::function<StreamPtr(const StreamRequest& request)> open_stream = {};
  /// A sample as far as the options determine it; absent or none: they do not.
  std::function<std::optional<SampleSpec>(const Attributes& options)> spec = {};
  /// Throws OptionError if the options do not suit each other; absent: they always do.
  std::function<void(const Attributes& options)> check = {};
  /// Whether a file belongs to the samples, by its name, if `path` is a folder.
  std::function<bool(const std::string& name)> owns = {};
  /// Options with files of which a run keeps a copy, and the names of the copies.
  std::map<std::string, std::string> kept = {};
  /// A line for the report of a job's data; absent or empty: none.
  std::function<std::string(const Attributes& options)> remark = {};
  InputFormat inputs = {};
  /// What the samples at a path suggest for a job; none if they are not of this source. `label`: of a table,
  /// the name of the label's column; empty: not given. Absent: nothing is suggested. Throws Error (user).
  std::function<std::optional<SourceDraft>(const std::string& path, const std::string& label)> draft = {};
};

/// Where the files of sources/ add their sources.
class SourceRegistry {
 public:
  void add(SourceType type) { types_.push_back(std::move(type)); }
  const std::vector<SourceType>& types() const { return types_; }
  void sort();  ///< by name

 private:
  std::vector<SourceType> types_;
};

/// All sources, by name.
const std::vector<SourceType>& source_types();
/// Throws Error (user), with the nearest name, when there is none with this name.
const SourceType& source_type(const std::string& name);
/// The names of the sources for which `has(type)`; without it, of all.
std::vector<std::string> source_names(const std::function<bool(const SourceType&)>& has = {});

/// Why a run cannot continue with another value of an option that determines the samples.
inline constexpr const char* kDeterminesSamples =
    "the model has been trained on the samples that it determines";

/// Options that several sources have. `help` says which file or folder it is.
Option path_option(const std::string& name, const std::string& help, const std::string& fallback = "");
Option test_path_option();
Option classes_option();
/// An option that determines the samples.
Option samples_option(std::string name, Attribute fallback, ValueRule rule, std::string help);

/// The samples of a source whose options `shape`, `vocabulary` and `classes` (0: one target) say all of it.
SampleSpec spec_of_options(const Attributes& options);
/// Throws OptionError unless `path` is given. `name`: of the source.
void require_path(const std::string& name, const Attributes& options);
/// The class 0 for each of `count` samples.
std::vector<int32_t> no_labels(int64_t count);

}  // namespace telar
