#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "telar/data/dataset.h"
#include "telar/data/normalised.h"
#include "telar/data/pictures/image_folder.h"
#include "telar/data/source.h"
#include "telar/data/streams/stream.h"
#include "telar/train/job.h"

namespace telar {

/// Samples that are left out because they cannot be read: of each part, the indices in it, ascending.
struct LeftOut {
  std::vector<int64_t> train;
  std::vector<int64_t> validation;
  std::vector<int64_t> test;
  int64_t count() const { return static_cast<int64_t>(train.size() + validation.size() + test.size()); }
};

/// The sizes of the parts that processes have of some samples, in rank order.
using PartSizes = std::vector<int64_t>;

/// Of samples of which each process has a part.
struct SpreadParts {
  size_t own = 0;  ///< this process's part
  PartSizes train;
  PartSizes validation;  ///< empty if there are none
  PartSizes test;        ///< the same
  int64_t left_out = 0;  ///< samples, in all parts
};

/// The datasets of a job, with their decorators. `validation` and `test` are null if the job has none.
struct Datasets {
  DatasetPtr train;  ///< null if the training samples are a stream
  StreamPtr stream;  ///< null if they are not
  DatasetPtr validation;
  DatasetPtr test;
  PictureListPtr pictures;         ///< the files of data.path, if they are images; otherwise null
  PictureListPtr test_pictures;    ///< of data.test_path
  LeftOut left_out;                ///< already left out of the parts above
  std::vector<std::string> notes;  ///< sentences for the user on how the data were understood
  std::vector<std::vector<std::string>> described = {};  ///< OpenedSource::described, of the training samples
  /// If each process has a part of the samples: it can read its own ones only (part_of.h).
  std::optional<SpreadParts> spread = std::nullopt;

  /// What was decided of the columns, with a line for each; empty if nothing was.
  std::string columns_text() const;
  /// The samples that are left out, in all processes.
  int64_t left_out_count() const { return spread ? spread->left_out : left_out.count(); }
  /// Of a sample.
  const SampleSpec& spec() const { return train != nullptr ? train->spec() : stream->spec(); }
};

/// How samples are checked before they are needed. Only samples that are files of their own are checked:
/// all others were read when their source was opened.
struct SampleChecks {
  int threads = 1;
  /// Called about every second: "checked 1200 of 50000 validation samples"; may be empty. False gives up.
  std::function<bool(const std::string& progress)> watch;
  std::function<void(const std::string&)>
      warn;            ///< receives the first samples that are left out; may be empty
  bool decode = true;  ///< false: only the headers are read
};

/// Opens the datasets that the section "data" describes; `seed` selects the validation samples. Measured
/// means and deviations are written into `data`, so that the job as run contains them. Throws Error (user):
/// missing or damaged files, or options that do not fit them; Error (run): a file that is there cannot be
/// read.
///
/// With `checks`, samples are read as `data.on_error` says: with `skip` all of them, and those that cannot
/// be read are left out of their part; with `stop` those for validation and test, which the training would
/// reach only after hours.
Datasets open_datasets(DataJob& data, uint64_t seed, const SampleChecks* checks = nullptr);

/// Returns the samples to leave out. Called once, with the parts as divided, raw, and nothing left out yet.
/// It may also set the means and deviations of the job, which are measured otherwise.
using LeaveOut = std::function<LeftOut(const Datasets& divided)>;

/// The same, where the caller decides what is left out.
Datasets open_datasets(DataJob& data, uint64_t seed, const PictureListing& listing,
                       const LeaveOut& leave_out);

// The steps of open_datasets():

/// The raw samples of a job, before they are divided.
struct JobSources {
  OpenedSource train;
  OpenedSource test;
};
/// What the training samples decide is written into `data`, before the test samples are opened.
JobSources open_sources(DataJob& data, uint64_t seed, const PictureListing& listing);

/// Sets samples aside for validation and test.
Datasets divide(const DataJob& data, uint64_t seed, JobSources sources);

/// Leaves these samples out of the parts.
void leave_out_samples(Datasets& parts, LeftOut samples);

/// Whether means and deviations must be measured on the training samples.
bool measures_moments(const DataJob& data, const SampleSpec& spec);
inline constexpr int64_t kMeasuredPictures = 2000;  ///< the most on which they are measured
/// The sums for them: over all training samples; of pictures, which would have to be decoded, over some that
/// `seed` selects. `weight`: the samples for which each of those stands.
struct MeasuredMoments {
  MomentSums sums;
  double weight = 1;
};
MeasuredMoments measure_moments(const DataJob& data, const Dataset& train, uint64_t seed);
/// Writes means and deviations into `data`, and what is to be said of them into `notes`.
void take_moments(DataJob& data, Moments moments, std::vector<std::string>& notes);

/// Sorts, augments and normalises. Means and deviations are written into `data`, unless they are there.
void prepare(DataJob& data, uint64_t seed, Datasets& parts);

/// What open_datasets() does with `checks`.
PictureListing picture_listing(const DataJob& data, const SampleChecks* checks);
LeftOut find_unreadable(const DataJob& data, const SampleChecks* checks, const Datasets& divided);

/// Only the test samples, for a job as run. Does not open the training files if the source stores them
/// separately. Null if there are no test samples. Throws Error (user) if each process has a part of them.
DatasetPtr open_test_dataset(const DataJob& data, uint64_t seed, const SampleChecks* checks = nullptr);

/// Throws Error (user) unless samples of both kinds have the same shape, type and classes.
void require_alike(const SampleSpec& train, const SampleSpec& test);

/// With what samples are normalised in training; empty if they are not.
FeatureScale scale_of(const DataJob& data, const SampleSpec& spec);

/// Samples as in training: normalised with the job's mean and std if it has them, and with labels that its
/// loss can take. Null if `samples` is null.
DatasetPtr normalise(const DataJob& data, DatasetPtr samples);

/// The description of a sample as far as the job alone determines it; opens no files. Empty for sources whose
/// files determine it.
std::optional<SampleSpec> spec_without_files(const DataJob& data);

}  // namespace telar
