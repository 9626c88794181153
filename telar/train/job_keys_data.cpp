#include "telar/train/job_keys.h"

namespace telar {

namespace {

const std::string kSource = "data.source";
const std::vector<std::string> kSources = {"fashion-mnist", "mnist", "idx",    "cifar10",  "cifar100",
                                           "csv",           "npy",   "images", "synthetic"};

std::vector<JobKey> source_keys() {
  return {
      required(job_key(
          kSource, [](auto& job) -> auto& { return job.data.source; }, {.choices = kSources},
          "Where the samples come from. `data: csv` is short for it.")),
      when(kSource, {"fashion-mnist", "mnist", "idx", "cifar10", "cifar100", "csv", "npy", "images"},
           without_result(job_key(
               "data.path", [](auto& job) -> auto& { return job.data.path; }, {},
               "idx, CIFAR: the folder of the published files. csv: the file. npy: the features. images: the "
               "folder with one "
               "sub-folder for each class. fashion-mnist: /usr/share/datasets/fashion-mnist unless given."))),
      when(kSource, {"csv", "npy", "images"},
           without_result(job_key(
               "data.test_path", [](auto& job) -> auto& { return job.data.test_path; }, {},
               "The same for the test samples; without it, `data.test` sets a part of the others aside."))),
      when(
          kSource, {"npy"},
          without_result(job_key(
              "data.label_path", [](auto& job) -> auto& { return job.data.label_path; }, {}, "The labels."))),
      when(kSource, {"npy"},
           without_result(job_key(
               "data.test_label_path", [](auto& job) -> auto& { return job.data.test_label_path; }, {},
               "The labels of the test samples."))),
      when(kSource, {"idx", "csv", "npy", "synthetic"},
           job_key(
               "data.classes", [](auto& job) -> auto& { return job.data.classes; }, {.least = 0, .most = 1e6},
               "How many classes there are; labels are 0 … classes − 1. 0: regression (not for idx).")),
      when(kSource, {"cifar100"},
           job_key(
               "data.label_set", [](auto& job) -> auto& { return job.data.label_set; },
               {.choices = {"fine", "coarse"}}, "CIFAR-100's 100 classes, or its 20 superclasses.")),
      when(kSource, {"csv"},
           job_key(
               "data.label", [](auto& job) -> auto& { return job.data.label; }, {},
               "The label's column: its name, or its number (0 the first, -1 the last). Empty: the last.")),
      when(kSource, {"csv"},
           job_key(
               "data.header", [](auto& job) -> auto& { return job.data.header; }, {},
               "Whether line 1 holds names.")),
      when(kSource, {"csv"},
           job_key(
               "data.separator", [](auto& job) -> auto& { return job.data.separator; },
               {.choices = {"comma", "semicolon", "tab", "space"}}, "What stands between two cells.")),
      when(kSource, {"images", "synthetic"},
           job_key(
               "data.shape", [](auto& job) -> auto& { return job.data.shape; }, {.least = 1, .most = 1 << 20},
               "Of one sample. images: [channels, height, width], to which pictures are resized. synthetic: "
               "any.")),
      when(kSource, {"synthetic"},
           job_key(
               "data.samples", [](auto& job) -> auto& { return job.data.samples; }, {.least = 1, .most = 1e9},
               "How many samples are made up.")),
      when(kSource, {"synthetic"},
           job_key(
               "data.test_samples", [](auto& job) -> auto& { return job.data.test_samples; },
               {.least = 0, .most = 1e9}, "And how many for the test.")),
      when(kSource, {"synthetic"},
           job_key(
               "data.vocabulary", [](auto& job) -> auto& { return job.data.vocabulary; },
               {.least = 0, .most = 1 << 30},
               "Above 0: samples are sequences of token ids below it, of length `data.shape`.")),
  };
}

std::vector<JobKey> handling_keys() {
  return {
      job_key(
          "data.limit", [](auto& job) -> auto& { return job.data.limit; }, {.least = 0, .most = 4e9},
          "Take only the first so many samples, before validation is set apart. 0: all."),
      job_key(
          "data.validation", [](auto& job) -> auto& { return job.data.validation; },
          {.least = 0, .most = 1, .below_most = true},
          "The part of the training samples that is set apart for validation, chosen by the seed."),
      when(kSource, {"csv", "npy", "images"},
           job_key(
               "data.test", [](auto& job) -> auto& { return job.data.test; },
               {.least = 0, .most = 1, .below_most = true},
               "The part of the samples that is set apart for the test when there is no `data.test_path`.")),
      job_key(
          "data.normalise", [](auto& job) -> auto& { return job.data.normalise; }, {},
          "(x − mean) / std, for each channel or column. Not for synthetic data and token ids, which need "
          "none."),
      job_key(
          "data.mean", [](auto& job) -> auto& { return job.data.mean; }, {},
          "For normalise; empty: known for Fashion-MNIST, MNIST and CIFAR, else measured on the training "
          "samples."),
      job_key(
          "data.std", [](auto& job) -> auto& { return job.data.std; }, {.least = 0, .above_least = true},
          "As `data.mean`."),
      job_key(
          "data.augment.padding", [](auto& job) -> auto& { return job.data.augment_padding; },
          {.least = 0, .most = 1024},
          "Training images get so many black pixels on each side and are cut back at random."),
      job_key(
          "data.augment.flip", [](auto& job) -> auto& { return job.data.augment_flip; }, {},
          "Mirrors half of the training images left and right, at random."),
      job_key(
          "data.shuffle", [](auto& job) -> auto& { return job.data.shuffle; }, {},
          "A new order of the training samples in each epoch."),
      job_key(
          "data.mixing", [](auto& job) -> auto& { return job.data.mixing; },
          {.choices = {"shuffled", "by_label"}},
          "by_label: the training samples are sorted by their label, and each worker's piece of a batch "
          "(without "
          "parts: the batch) is taken from one place, so that it holds one label or two; the pieces follow "
          "each "
          "other at random. To see what badly mixed data do."),
      when(kSource, {"images"},
           without_result(job_key(
               "data.cache_mb", [](auto& job) -> auto& { return job.data.cache_mb; },
               {.least = 0, .most = 1e9},
               "Memory for decoded pictures, kept after they were first read. The other sources lie in "
               "memory as they are."))),
      without_result(job_key(
          "data.threads", [](auto& job) -> auto& { return job.data.threads; }, {.least = 0, .most = 256},
          "Background threads that prepare batches. 0: none, the training itself reads.")),
      without_result(job_key(
          "data.prefetch", [](auto& job) -> auto& { return job.data.prefetch; }, {.least = 1, .most = 1024},
          "Batches that are prepared ahead.")),
  };
}

}  // namespace

std::vector<JobKey> data_keys() {
  std::vector<JobKey> keys = source_keys();
  for (JobKey& key : handling_keys()) keys.push_back(std::move(key));
  return keys;
}

}  // namespace telar
