#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "telar/core/suggest.h"
#include "telar/data/division.h"
#include "telar/data/source.h"
#include "telar/train/job_keys.h"

namespace telar {

namespace {

const std::string kSource = "data.source";
// Why a run cannot continue with another value.
const std::string kDivision =
    "the samples would be divided anew, and the model tested on samples that it has been trained on";
const std::string kScale = "the weights fit samples that are scaled in this way";
std::vector<std::string> with_test_by_user() {
  return source_names([](const SourceType& type) { return type.test_by_user; });
}

std::vector<std::string> with_files_of_one_sample() {
  return source_names([](const SourceType& type) { return type.file_each; });
}

/// For sources whose samples can be read in any order.
JobKey for_datasets(JobKey key) {
  return unless(kSource, source_names(),
                source_names([](const SourceType& type) { return type.open_stream != nullptr; }),
                std::move(key));
}

std::string sources_text() {
  std::string text = "Source of the samples. ";
  for (const SourceType& type : source_types()) text += fmt::format("{}: {}. ", type.name, type.summary);
  return text + "Short form: `data: csv`.";
}

/// Keys of the same name, which several sources have with different meanings, next to each other.
void group_by_path(std::vector<JobKey>& keys) {
  std::map<std::string, size_t> first;
  for (const JobKey& key : keys) first.emplace(key.path, first.size());
  std::ranges::stable_sort(keys, {}, [&](const JobKey& key) { return first.at(key.path); });
}

std::vector<JobKey> source_keys() {
  std::vector<JobKey> keys = {
      required(fixed(kDeterminesSamples, job_key(
                                             kSource, [](auto& job) -> auto& { return job.data.source; },
                                             {.choices = source_names()}, sources_text())))};
  std::vector<std::pair<std::string, std::vector<Option>>> options;
  for (const SourceType& type : source_types()) options.emplace_back(type.name, type.options);
  for (JobKey& key : keys_of_choices(
           "data", kSource, options, [](auto& job) -> auto& { return job.data.options; }))
    keys.push_back(std::move(key));
  group_by_path(keys);
  return keys;
}

std::vector<JobKey> handling_keys() {
  return {
      unless(
          kSource, source_names(),
          source_names([](const SourceType& type) { return type.generated || type.open_stream != nullptr; }),
          fixed(
              kDivision,
              job_key(
                  "data.spread", [](auto& job) -> auto& { return job.data.spread; }, {},
                  "true: each process that mpirun starts has a part of the samples in files of its own and opens no others. The paths name other files on each host, or contain `{rank}`, which stands for the number of the process. See below."))),
      for_datasets(fixed(
          kDeterminesSamples,
          job_key(
              "data.limit", [](auto& job) -> auto& { return job.data.limit; }, {.least = 0, .most = 4e9},
              "Uses only the first N samples, or, where each class has a folder, N at even distances; applied before the validation samples are set aside. 0: all samples."))),
      for_datasets(fixed(
          kDivision,
          job_key(
              "data.validation", [](auto& job) -> auto& { return job.data.validation; },
              {.least = 0, .most = 1, .below_most = true},
              "Fraction of the training samples that is set aside for validation; the seed selects them. Without effect if `data.folds` or a column sets them aside."))),
      for_datasets(fixed(
          kDivision,
          job_key(
              "data.split", [](auto& job) -> auto& { return job.data.split; }, {.choices = split_names()},
              "Which samples are set aside. random: any. stratified: any, with the same part of each class. group: all of a group or none. time: the latest ones. column: a column names the part of each sample. See below."))),
      for_datasets(
          fixed(kDivision, job_key(
                               "data.split_seed", [](auto& job) -> auto& { return job.data.split_seed; },
                               {.least = kSeedOfTraining, .most = 9e15},
                               "Seed that selects the samples for validation. -1: `training.seed`."))),
      for_datasets(fixed(
          kDivision,
          job_key(
              "data.folds", [](auto& job) -> auto& { return job.data.folds; }, {.least = 0, .most = 1e6},
              "Above 0: the samples are divided into so many folds, one of which is set aside for validation in the place of `data.validation`. `telar train --fold all` trains once for each."))),
      for_datasets(
          fixed(kDivision, job_key(
                               "data.fold", [](auto& job) -> auto& { return job.data.fold; },
                               {.least = 1, .most = 1e6}, "The fold for validation, 1 … `data.folds`."))),
      when(
          kSource, with_test_by_user(),
          fixed(
              kDivision,
              job_key(
                  "data.test", [](auto& job) -> auto& { return job.data.test; },
                  {.least = 0, .most = 1, .below_most = true},
                  "Fraction of the samples that is set aside as test samples if `data.test_path` is empty."))),
      fixed(
          kScale,
          job_key(
              "data.normalise", [](auto& job) -> auto& { return job.data.normalise; }, {},
              "Computes (x − mean) / std for each channel or column. Synthetic data and token ids are not normalised.")),
      fixed(
          kScale,
          job_key(
              "data.mean", [](auto& job) -> auto& { return job.data.mean; }, {},
              fmt::format(
                  "Mean for `data.normalise`. Empty: for {} the published values; for other data, measured on the training samples.",
                  one_of(source_names([](const SourceType& type) { return !type.moments.mean.empty(); }))))),
      fixed(kScale, job_key(
                        "data.std", [](auto& job) -> auto& { return job.data.std; },
                        {.least = 0, .above_least = true},
                        "Standard deviation for `data.normalise`. Empty: as for `data.mean`.")),
      without_result(job_key(
          "data.target_mean", [](auto& job) -> auto& { return job.data.target_mean; }, {},
          "Numbers near the means of the targets, from which the metric r2 measures them, so that large ones keep their digits. Empty: with that metric, the means of the training samples; of a stream 0.")),
      for_datasets(job_key(
          "data.augment.padding", [](auto& job) -> auto& { return job.data.augment_padding; },
          {.least = 0, .most = 1024},
          "Pads each training image with N black pixels on each side, then crops it at a random position.")),
      for_datasets(job_key(
          "data.augment.flip", [](auto& job) -> auto& { return job.data.augment_flip; }, {},
          "Flips half of the training images horizontally, selected at random.")),
      for_datasets(job_key(
          "data.shuffle", [](auto& job) -> auto& { return job.data.shuffle; }, {},
          "Uses a new order of the training samples in each epoch.")),
      for_datasets(job_key(
          "data.mixing", [](auto& job) -> auto& { return job.data.mixing; },
          {.choices = {"shuffled", "by_label"}},
          "by_label: the training samples are sorted by label. Each worker's share of a batch (or the whole batch, if it is not divided) is a run of adjacent samples, so it contains one or two labels. The order of the shares is random. Use it to see the effect of poorly mixed data.")),
      when(
          kSource, with_files_of_one_sample(),
          job_key(
              "data.on_error", [](auto& job) -> auto& { return job.data.on_error; },
              {.choices = {"stop", "skip"}},
              "What happens if an image is damaged. stop: the run ends with an error. skip: all images are read before the first step, and those that are damaged are named, counted and left out.")),
      when(
          kSource, with_files_of_one_sample(),
          without_result(job_key(
              "data.cache_mb", [](auto& job) -> auto& { return job.data.cache_mb; },
              {.least = 0, .most = 1e9},
              "Memory for decoded images, which are kept after the first read. Samples that need no decoding are not kept a second time."))),
      without_result(
          job_key(
              "data.threads", [](auto& job) -> auto& { return job.data.threads; },
              {.least = kAutomaticThreads, .most = 256}, "Background threads of each process that prepare batches. -1: the threads that computing leaves of those that the process may use (its processors, or its quota), at least 1 and at most `data.prefetch`. 0: none; the training thread reads the data itself.")),
      without_result(job_key(
          "data.prefetch", [](auto& job) -> auto& { return job.data.prefetch; }, {.least = 1, .most = 1024},
          "Number of batches that are prepared in advance.")),
  };
}

}  // namespace

std::vector<JobKey> data_keys() {
  std::vector<JobKey> keys = source_keys();
  for (JobKey& key : handling_keys()) keys.push_back(std::move(key));
  return keys;
}

}  // namespace telar
