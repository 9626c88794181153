#include "telar/train/job_keys.h"

namespace telar {

namespace {

const std::string kSource = "data.source";
// Why a run cannot continue with another value.
const std::string kSamples = "the model has been trained on the samples that it determines";
const std::string kDivision =
    "the samples would be divided anew, and the model tested on samples that it has been trained on";
const std::string kScale = "the weights fit samples that are scaled in this way";
const std::vector<std::string> kSources = {"fashion-mnist", "mnist", "idx",    "cifar10",  "cifar100",
                                           "csv",           "npy",   "images", "synthetic"};

std::vector<JobKey> source_keys() {
  return {
      required(
          fixed(kSamples, job_key(
                              kSource, [](auto& job) -> auto& { return job.data.source; },
                              {.choices = kSources}, "Source of the samples. Short form: `data: csv`."))),
      when(
          kSource, {"fashion-mnist", "mnist", "idx", "cifar10", "cifar100", "csv", "npy", "images"},
          without_result(job_key(
              "data.path", [](auto& job) -> auto& { return job.data.path; }, {},
              "idx, CIFAR: the folder with the published files. csv: the file. npy: the file of features. images: the folder with one subfolder per class. fashion-mnist: /usr/share/datasets/fashion-mnist by default."))),
      when(
          kSource, {"csv", "npy", "images"},
          without_result(job_key(
              "data.test_path", [](auto& job) -> auto& { return job.data.test_path; }, {},
              "The same for the test samples. Empty: `data.test` sets aside a fraction of the other samples."))),
      when(kSource, {"npy"},
           without_result(job_key(
               "data.label_path", [](auto& job) -> auto& { return job.data.label_path; }, {},
               "The file of labels."))),
      when(kSource, {"npy"},
           without_result(job_key(
               "data.test_label_path", [](auto& job) -> auto& { return job.data.test_label_path; }, {},
               "The file of labels of the test samples."))),
      when(kSource, {"idx", "csv", "npy", "synthetic"},
           fixed(kSamples,
                 job_key(
                     "data.classes", [](auto& job) -> auto& { return job.data.classes; },
                     {.least = 0, .most = 1e6},
                     "Number of classes; labels are 0 … classes − 1. 0: regression (not for idx)."))),
      when(kSource, {"cifar100"},
           fixed(kSamples,
                 job_key(
                     "data.label_set", [](auto& job) -> auto& { return job.data.label_set; },
                     {.choices = {"fine", "coarse"}}, "CIFAR-100's 100 classes, or its 20 superclasses."))),
      when(
          kSource, {"csv"},
          fixed(
              kSamples,
              job_key(
                  "data.label", [](auto& job) -> auto& { return job.data.label; }, {},
                  "Label column: its name or its number (0 is the first, -1 the last). Empty: the last column."))),
      when(kSource, {"csv"},
           fixed(kSamples, job_key(
                               "data.header", [](auto& job) -> auto& { return job.data.header; }, {},
                               "Whether line 1 contains column names."))),
      when(kSource, {"csv"},
           fixed(kSamples,
                 job_key(
                     "data.separator", [](auto& job) -> auto& { return job.data.separator; },
                     {.choices = {"comma", "semicolon", "tab", "space"}}, "Separator between two cells."))),
      when(
          kSource, {"images", "synthetic"},
          fixed(
              kSamples,
              job_key(
                  "data.shape", [](auto& job) -> auto& { return job.data.shape; },
                  {.least = 1, .most = 1 << 20},
                  "Shape of one sample. images: [channels, height, width]; images are resized to it. synthetic: any shape."))),
      when(kSource, {"synthetic"},
           fixed(kSamples, job_key(
                               "data.samples", [](auto& job) -> auto& { return job.data.samples; },
                               {.least = 1, .most = 1e9}, "Number of samples to generate."))),
      when(kSource, {"synthetic"},
           fixed(kSamples, job_key(
                               "data.test_samples", [](auto& job) -> auto& { return job.data.test_samples; },
                               {.least = 0, .most = 1e9}, "Number of test samples to generate."))),
      when(
          kSource, {"synthetic"},
          fixed(
              kSamples,
              job_key(
                  "data.vocabulary", [](auto& job) -> auto& { return job.data.vocabulary; },
                  {.least = 0, .most = 1 << 30},
                  "Above 0: each sample is a sequence of token ids below this value, of length `data.shape`."))),
  };
}

std::vector<JobKey> handling_keys() {
  return {
      fixed(
          kSamples,
          job_key(
              "data.limit", [](auto& job) -> auto& { return job.data.limit; }, {.least = 0, .most = 4e9},
              "Uses only the first N samples; applied before the validation samples are set aside. 0: all samples.")),
      fixed(kDivision,
            job_key(
                "data.validation", [](auto& job) -> auto& { return job.data.validation; },
                {.least = 0, .most = 1, .below_most = true},
                "Fraction of the training samples that is set aside for validation; the seed selects them.")),
      when(
          kSource, {"csv", "npy", "images"},
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
              "Mean for `data.normalise`. Empty: the known values of Fashion-MNIST, MNIST and CIFAR; for other data, measured on the training samples.")),
      fixed(kScale, job_key(
                        "data.std", [](auto& job) -> auto& { return job.data.std; },
                        {.least = 0, .above_least = true},
                        "Standard deviation for `data.normalise`. Empty: as for `data.mean`.")),
      job_key(
          "data.augment.padding", [](auto& job) -> auto& { return job.data.augment_padding; },
          {.least = 0, .most = 1024},
          "Pads each training image with N black pixels on each side, then crops it at a random position."),
      job_key(
          "data.augment.flip", [](auto& job) -> auto& { return job.data.augment_flip; }, {},
          "Flips half of the training images horizontally, selected at random."),
      job_key(
          "data.shuffle", [](auto& job) -> auto& { return job.data.shuffle; }, {},
          "Uses a new order of the training samples in each epoch."),
      job_key(
          "data.mixing", [](auto& job) -> auto& { return job.data.mixing; },
          {.choices = {"shuffled", "by_label"}},
          "by_label: the training samples are sorted by label. Each worker's share of a batch (or the whole batch, if it is not divided) is a run of adjacent samples, so it contains one or two labels. The order of the shares is random. Use it to see the effect of poorly mixed data."),
      when(
          kSource, {"images"},
          job_key(
              "data.on_error", [](auto& job) -> auto& { return job.data.on_error; },
              {.choices = {"stop", "skip"}},
              "What happens if an image is damaged. stop: the run ends with an error. skip: all images are read before the first step, and those that are damaged are named, counted and left out.")),
      when(
          kSource, {"images"},
          without_result(job_key(
              "data.cache_mb", [](auto& job) -> auto& { return job.data.cache_mb; },
              {.least = 0, .most = 1e9},
              "Memory for decoded images, which are kept after the first read. All other sources are always held in memory."))),
      without_result(job_key(
          "data.threads", [](auto& job) -> auto& { return job.data.threads; },
          {.least = kAutomaticThreads, .most = 256},
          "Background threads of each process that prepare batches. -1: the threads that computing leaves of those that the process may use (its processors, or its quota), at least 1 and at most `data.prefetch`. 0: none; the training thread reads the data itself.")),
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
