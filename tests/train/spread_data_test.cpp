#include "telar/train/spread_data.h"

#include <gtest/gtest.h>

#include <map>
#include <mutex>

#include "io/temp_folder.h"
#include "support/npy_file.h"
#include "support/picture_folder.h"
#include "support/sentences.h"
#include "support/thread_processes.h"
#include "telar/core/error.h"
#include "telar/train/job_reader.h"
#include "telar/train/job_report.h"

namespace telar {
namespace {

using test::says;

namespace fs = std::filesystem;

/// A sample as a process reads it.
struct SpreadSample {
  std::vector<float> x;
  int32_t label = 0;
  bool operator==(const SpreadSample&) const = default;
};

SpreadSample spread_sample(const Dataset& data, int64_t number) {
  SpreadSample sample;
  sample.x.resize(data.spec().feature_bytes() / sizeof(float));
  data.read(number, {}, std::as_writable_bytes(std::span(sample.x)),
            std::as_writable_bytes(std::span(&sample.label, 1)));
  return sample;
}

/// What a process has opened, or the error that it threw.
struct OpenedPart {
  SpreadDatasets spread;
  Job job;
  std::string error;
};

/// Threads that each play a process with data of its own.
class SpreadData : public testing::Test {
 protected:
  /// `data`: the keys of the section, besides spread.
  std::vector<OpenedPart> open(int processes, const std::string& data,
                               const std::vector<std::string>& overrides = {},
                               std::vector<std::string>* warnings = nullptr) {
    std::vector<OpenedPart> parts(static_cast<size_t>(processes));
    test::as_processes(processes, [&](Processes& process) {
      OpenedPart& part = parts[static_cast<size_t>(process.rank())];
      part.job = parse_job(fmt::format("model: mlp\nstrategy: {{name: mirrored, replicas: 1}}\n"
                                       "data: {{spread: true, {}}}\n",
                                       data),
                           "job.yaml", overrides);
      SampleChecks checks;
      if (warnings != nullptr && process.rank() == 0)
        checks.warn = [&](const std::string& text) { warnings->push_back(text); };
      try {
        part.spread = open_spread_datasets(part.job, &checks, &process);
      } catch (const Error& error) {
        part.error = error.what();
      }
    });
    return parts;
  }

  /// Expects that all processes are refused with the same sentence, which has these parts.
  void refused(int processes, const std::string& data, const std::vector<std::string_view>& pieces) {
    const auto parts = open(processes, data);
    for (const OpenedPart& part : parts) {
      EXPECT_EQ(part.error, parts[0].error);
      for (const std::string_view piece : pieces) EXPECT_TRUE(says(part.error, piece));
    }
  }

  /// Shards of `rank` with these samples, of two features: the sample's number and its square.
  void write_shard(int rank, const std::string& name, int first, int count) const {
    std::vector<float> x;
    std::vector<int64_t> labels;
    for (int i = first; i < first + count; ++i) {
      x.insert(x.end(), {static_cast<float>(i), static_cast<float>(i * i)});
      labels.push_back(i % 3);
    }
    write_arrays(rank, name, x, {2}, labels);
  }

  template <typename T>
  void write_arrays(int rank, const std::string& name, const std::vector<T>& x, const Shape& sample,
                    const std::vector<int64_t>& labels) const {
    test::write_npy(folder_ / fmt::format("{}/x-{}.npy", rank, name), x, sample);
    test::write_npy(folder_ / fmt::format("{}/label-{}.npy", rank, name), labels);
  }

  std::string arrays(const std::string& more = "validation: 0") const {
    const std::string path = folder_.path().string();
    return fmt::format(
        "source: npy, path: \"{}/{{rank}}/x-*.npy\", label_path: \"{}/{{rank}}/label-*.npy\", classes: 3, {}",
        path, path, more);
  }

  std::string images(const std::string& more) const {
    return fmt::format("source: images, path: \"{}/{{rank}}\", shape: [3, 8, 8], {}", folder_.path().string(),
                       more);
  }

  /// 20 images, of which rank 0 has numbers 0 to 12 and rank 1 the others: one of them has no cats.
  void write_images() const {
    const test::PictureFolder all(folder_ / "all");
    for (int i = 0; i < 20; ++i) {
      const fs::path to =
          folder_ / fmt::format("{}/{}/{:02}.png", i < 13 ? 0 : 1, i < 10 ? "cats" : "dogs", i);
      fs::create_directories(to.parent_path());
      fs::copy(all.file(i), to);
    }
  }

  test::TempFolder folder_;
};

TEST_F(SpreadData, SamplesAreNumberedOverAllProcesses) {
  write_shard(0, "a", 0, 5);
  write_shard(0, "b", 5, 2);
  write_shard(1, "a", 7, 4);
  write_shard(2, "a", 11, 6);
  const auto parts = open(3, arrays("validation: 0, normalise: false"));
  for (size_t rank = 0; rank < 3; ++rank) {
    ASSERT_EQ(parts[rank].error, "");
    const Dataset& data = *parts[rank].spread.data.train;
    EXPECT_EQ(data.size(), 17);
    EXPECT_EQ(parts[rank].spread.data.spread->train, (PartSizes{7, 4, 6}));
    const int64_t first = std::vector<int64_t>{0, 7, 11}[rank];
    for (int64_t i = first; i < first + parts[rank].spread.data.spread->train[rank]; ++i)
      EXPECT_EQ(spread_sample(data, i).x,
                (std::vector<float>{static_cast<float>(i), static_cast<float>(i * i)}));
    test::expect_error([&] { spread_sample(data, (first + 16) % 17); }, {"is one of another process"},
                       Error::Kind::run);
  }
}

TEST_F(SpreadData, MeansAreThoseOfAllSamples) {
  write_shard(0, "a", 0, 30);
  write_shard(1, "a", 30, 7);
  write_shard(9, "a", 0, 37);
  Job whole = parse_job(fmt::format("model: mlp\ndata: {{source: npy, path: {0}/9/x-a.npy, label_path: "
                                    "{0}/9/label-a.npy, classes: 3, validation: 0}}",
                                    folder_.path().string()),
                        "job.yaml");
  open_datasets(whole.data, 1);
  const auto parts = open(2, arrays());
  for (const OpenedPart& part : parts) {
    ASSERT_EQ(part.job.data.mean.size(), 2U) << part.error;
    for (size_t column = 0; column < 2; ++column) {
      EXPECT_NEAR(part.job.data.mean[column], whole.data.mean[column], 1e-9);
      EXPECT_NEAR(part.job.data.std[column], whole.data.std[column], 1e-9);
    }
  }
}

TEST_F(SpreadData, PartsOfATableHaveTheMomentsAndColumnsOfAll) {
  const auto row = [](int i) { return fmt::format("{},{},{}\n", 1'700'000'000 + i * i, i % 20, i % 3); };
  std::map<int, std::string> texts = {{0, "time,b,kind\n"}, {1, "time,b,kind\n"}, {9, "time,b,kind\n"}};
  for (int i = 0; i < 6000; ++i) {
    texts[i < 5000 ? 0 : 1] += row(i);
    texts[9] += row(i);
  }
  for (const auto& [rank, text] : texts) test::write_text(folder_ / fmt::format("{}/t.csv", rank), text);
  const auto table = [&](const std::string& rank) {
    return fmt::format("source: csv, path: \"{}/{}/t.csv\", classes: 3, validation: 0",
                       folder_.path().string(), rank);
  };
  Job whole = parse_job("model: mlp\ndata: {" + table("9") + "}", "job.yaml");
  open_datasets(whole.data, 1);
  const auto parts = open(2, table("{rank}"));
  for (const OpenedPart& part : parts) {
    ASSERT_EQ(part.error, "");
    EXPECT_EQ(part.job.data.options, [&] {
      Attributes options = whole.data.options;
      options.set("path", part.job.data.options.text("path"));
      return options;
    }());
    EXPECT_EQ(part.job.data.mean, parts[0].job.data.mean);
    for (size_t column = 0; column < 2; ++column) {
      EXPECT_NEAR(part.job.data.mean.at(column) / whole.data.mean[column], 1, 1e-12);
      EXPECT_NEAR(part.job.data.std.at(column) / whole.data.std[column], 1, 1e-9);
    }
  }
  std::string turned = "b,time,kind\n";
  for (int i = 5000; i < 6000; ++i) turned += fmt::format("{},{},{}\n", i % 20, 1'700'000'000 + i * i, i % 3);
  test::write_text(folder_ / "1" / "t.csv", turned);
  const auto by_name = open(2, table("{rank}"));
  for (size_t rank = 0; rank < 2; ++rank) {
    ASSERT_EQ(by_name[rank].error, "");
    EXPECT_EQ(by_name[rank].job.data.options, parts[rank].job.data.options);
    EXPECT_EQ(by_name[rank].job.data.mean, parts[rank].job.data.mean) << "columns in another order";
  }
  test::write_text(folder_ / "1" / "t.csv", "b,hour,kind\n1,2,0\n2,3,1\n");
  refused(2, table("{rank}"),
          {R"(rank 1 has the columns ["b","hour","kind"], but rank 0 ["time","b","kind"])", "in any order"});
}

TEST_F(SpreadData, APartIsCountedAsOftenAsItHasSamples) {
  const std::vector<float> zeros(5000);
  const std::vector<float> ones(1000, 1);
  write_arrays(0, "a", zeros, {1}, std::vector<int64_t>(5000));
  write_arrays(1, "a", ones, {1}, std::vector<int64_t>(1000));
  const auto parts = open(2, arrays());
  ASSERT_EQ(parts[0].error, "");
  EXPECT_NEAR(parts[0].job.data.mean.at(0), 1.0 / 6, 1e-9);
  EXPECT_NEAR(parts[0].job.data.std.at(0), std::sqrt(5.0) / 6, 1e-9);
}

TEST_F(SpreadData, ClassesAreThoseOfAllFolders) {
  write_images();
  const auto parts = open(2, images("validation: 0, normalise: false"));
  Job whole = parse_job(
      "model: mlp\ndata: {source: images, shape: [3, 8, 8], validation: 0, normalise: "
      "false, path: " +
          (folder_ / "all").string() + "}",
      "job.yaml");
  const Datasets all = open_datasets(whole.data, 1);
  for (size_t rank = 0; rank < 2; ++rank) {
    ASSERT_EQ(parts[rank].error, "");
    const Dataset& data = *parts[rank].spread.data.train;
    EXPECT_EQ(data.spec().class_names, (std::vector<std::string>{"cats", "dogs"}));
    EXPECT_EQ(data.spec().classes, 2);
    for (int64_t i = rank == 0 ? 0 : 13; i < (rank == 0 ? 13 : 20); ++i)
      EXPECT_EQ(spread_sample(data, i), spread_sample(*all.train, i)) << i;
  }
}

TEST_F(SpreadData, EachProcessSetsItsOwnSamplesAside) {
  write_shard(0, "a", 0, 40);
  write_shard(1, "a", 40, 20);
  const auto parts = open(2, arrays("validation: 0.25, test: 0.1"));
  ASSERT_EQ(parts[0].error, "");
  const SpreadParts& sizes = *parts[0].spread.data.spread;
  EXPECT_EQ(sizes.test, (PartSizes{4, 2}));
  EXPECT_EQ(sizes.validation, (PartSizes{9, 5}));  // of 36 and 18
  EXPECT_EQ(sizes.train, (PartSizes{27, 13}));
  EXPECT_EQ(parts[1].spread.data.validation->size(), 14);
  EXPECT_EQ(parts[1].spread.data.test->size(), 6);
}

TEST_F(SpreadData, TheRecordHasTheFilesOfAllProcesses) {
  write_shard(0, "a", 0, 5);
  write_shard(0, "b", 5, 2);
  write_shard(1, "a", 7, 4);
  const auto record = [&] { return open(2, arrays()).at(0).spread.record; };
  const DataRecord before = record();
  EXPECT_EQ(before.train, 11);
  EXPECT_EQ(before.sources.at("rank 0: data.path").files, 2);
  EXPECT_EQ(before.sources.at("rank 1: data.path").files, 1);
  EXPECT_EQ(record(), before);
  write_shard(1, "a", 8, 4);
  const std::vector<std::string> differences = data_differences(before, record());
  ASSERT_EQ(differences.size(), 2U);
  EXPECT_TRUE(says(differences[0], "checksum of rank 1: data.label_path"));
  EXPECT_TRUE(says(differences[1], "checksum of rank 1: data.path"));
}

TEST_F(SpreadData, DamagedImagesOfEveryProcessAreNamed) {
  write_images();
  for (const char* file : {"0/cats/03.png", "1/dogs/15.png"}) {
    const fs::path path = folder_ / file;
    fs::resize_file(path, fs::file_size(path) / 2);
  }
  std::vector<std::string> warnings;
  const auto parts = open(2, images("validation: 0, on_error: skip"), {}, &warnings);
  ASSERT_EQ(parts[0].error, "");
  EXPECT_EQ(parts[0].spread.data.spread->train, (PartSizes{12, 6}));
  EXPECT_EQ(parts[1].spread.data.left_out.count(), 1);
  ASSERT_EQ(warnings.size(), 2U);
  EXPECT_TRUE(says(warnings[0], "rank 0: left out of the training samples"));
  EXPECT_TRUE(says(warnings[1], "rank 1: left out of the training samples"));
  EXPECT_TRUE(says(warnings[1], "dogs/15.png"));
}

TEST_F(SpreadData, WhatAProcessCannotOpenNamesItsRank) {
  write_images();
  fs::remove_all(folder_ / "1/dogs");
  refused(2, images("validation: 0"), {"rank 1 on ", "/1: has no sub-folders"});
  fs::remove_all(folder_ / "1");
  refused(2, images("validation: 0"), {"rank 1 on ", "/1: there is no such folder"});
  write_shard(0, "a", 0, 5);
  write_shard(1, "a", 5, 5);
  write_shard(2, "a", 10, 5);
  fs::remove(folder_ / "2/label-a.npy");
  refused(3, arrays(), {"rank 2 on ", "there are no such files"});
  write_shard(2, "a", 10, 1);
  refused(3, arrays("validation: 0.1"), {"rank 2 on ", "leaves one part empty"});
}

TEST_F(SpreadData, SamplesMustHaveOneForm) {
  write_shard(0, "a", 0, 5);
  write_arrays(1, "a", std::vector<float>(15), {3}, std::vector<int64_t>(5));
  refused(2, arrays(),
          {"rank 1 has samples of f32 [3] with 3 classes, but rank 0 of f32 [2] with 3 classes"});
  write_arrays(1, "a", std::vector<int32_t>(10), {2}, std::vector<int64_t>(5));
  refused(2, arrays(), {"rank 1 has samples of i32 [2]"});
}

TEST_F(SpreadData, TheSameFilesInTwoProcessesAreRefused) {
  write_shard(0, "a", 0, 5);
  write_shard(1, "a", 5, 5);
  write_shard(2, "a", 0, 5);
  refused(3, arrays(), {"ranks 0 and 2 have the same files in data.path", "{rank} in the path"});
  write_shard(2, "a", 10, 5);
  const std::string tests = fmt::format(
      "test_path: \"{0}/0/x-*.npy\", test_label_path: \"{0}/0/label-*.npy\"", folder_.path().string());
  refused(3, arrays(tests), {"ranks 0 and 1 have the same files in data.test_path"});
}

TEST_F(SpreadData, OneProcessHasAllOfIt) {
  write_shard(0, "a", 0, 5);
  Job job = parse_job("model: mlp\ndata: {spread: true, " + arrays() + "}", "job.yaml");
  const SpreadDatasets alone = open_spread_datasets(job, nullptr, nullptr);
  EXPECT_EQ(alone.data.train->size(), 5);
  EXPECT_EQ(alone.data.spread->train, PartSizes{5});
}

TEST_F(SpreadData, ACheckCountsShardsAndSamplesOfAllProcesses) {
  write_shard(0, "a", 0, 5);
  write_shard(0, "b", 5, 2);
  write_shard(1, "a", 7, 4);
  const Job job = parse_job("model: mlp\ndata: {spread: true, " + arrays() + "}", "job.yaml",
                            {"strategy={name: mirrored, replicas: 1}"});
  const auto report = [&](Processes* processes) {
    return job_report(
        job, [](const std::string&) {}, [](const std::string&) {}, processes);
  };
  const std::string path = folder_.path().string();
  test::as_processes(2, [&](Processes& process) {
    const std::string text = report(&process);
    EXPECT_TRUE(says(text, "samples: 11 for training; each f32 [2], 3 classes; in 2 parts\n"));
    EXPECT_TRUE(says(text, path + "/0/x-*.npy: 2 shards\n" + path + "/1/x-*.npy: 1 shard\n"));
  });
  EXPECT_TRUE(says(report(nullptr), "samples: 7 for training; each f32 [2], 3 classes; the part of rank 0"));
}

TEST_F(SpreadData, StrategiesThatCannotUseItSayWhy) {
  write_shard(0, "a", 0, 5);
  write_shard(1, "a", 5, 5);
  const auto with = [&](const std::string& strategy) { return open(2, arrays(), {"strategy=" + strategy}); };
  EXPECT_EQ(with("{name: sharded, replicas: 1}")[0].error, "");
  EXPECT_TRUE(says(with("{name: pipeline, stages: 2}")[1].error,
                   "strategy pipeline cannot train on samples of which each process has a part (data.spread) "
                   "in 2 processes; choose mirrored or sharded, or start one process"));
  const auto checked = [&](const std::string& more, const std::string& data) {
    return test::sentence_of(
        [&] { parse_job("model: mlp\ndata: {spread: true, " + data + "}\n" + more, "job.yaml"); });
  };
  EXPECT_TRUE(
      says(checked("strategy: downpour", arrays()), "each worker needs all samples; choose mirrored"));
  EXPECT_TRUE(says(checked("", arrays("mixing: by_label")), "no process has all samples to sort them"));
  EXPECT_TRUE(says(checked("", "source: synthetic"), "data.spread"));
  Job job = parse_job("model: mlp\ndata: {spread: true, " + arrays() + "}", "job.yaml");
  test::expect_error([&] { open_test_dataset(job.data, 1); }, {"data.spread is true", "--data"});
}

}  // namespace
}  // namespace telar
