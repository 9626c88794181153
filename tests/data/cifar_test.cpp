#include "telar/data/arrays/cifar.h"

#include <gtest/gtest.h>

#include "data/support.h"

namespace telar::test {
namespace {

constexpr size_t kPixels = 3072;

/// Records with the given label bytes. Pixel p of record r is (r + p / 1024) mod 256: one value per channel.
Bytes records(const std::vector<std::vector<uint8_t>>& labels) {
  Bytes bytes;
  for (size_t r = 0; r < labels.size(); ++r) {
    bytes.insert(bytes.end(), labels[r].begin(), labels[r].end());
    for (size_t p = 0; p < kPixels; ++p) bytes.push_back(static_cast<uint8_t>(r + 100 * (p / 1024)));
  }
  return bytes;
}

TEST(Cifar, TenReadsAllFiveTrainingFilesInOrder) {
  const TempFolder folder;
  for (uint8_t file = 1; file <= 5; ++file) {
    folder.write("cifar-10-batches-bin/data_batch_" + std::to_string(file) + ".bin",
                 records({{file}, {static_cast<uint8_t>(file + 4)}}));
  }
  folder.write("cifar-10-batches-bin/test_batch.bin", records({{7}}));
  const DatasetPtr train = open_cifar(folder.path(), Split::train, CifarLabels::ten);
  ASSERT_EQ(train->size(), 10);
  EXPECT_EQ(train->spec().features, Shape({3, 32, 32}));
  EXPECT_EQ(train->spec().classes, 10);
  for (int64_t i = 0; i < 10; ++i) {
    const Sample sample = read(*train, i);
    EXPECT_EQ(sample.label, i / 2 + 1 + 4 * (i % 2));
    for (size_t channel = 0; channel < 3; ++channel) {
      const float wanted = static_cast<float>(i % 2 + 100 * static_cast<int64_t>(channel)) / 255;
      EXPECT_FLOAT_EQ(sample.values[channel * 1024], wanted);
      EXPECT_FLOAT_EQ(sample.values[channel * 1024 + 1023], wanted);
    }
  }
  const DatasetPtr test = open_cifar(folder.path("cifar-10-batches-bin"), Split::test, CifarLabels::ten);
  ASSERT_EQ(test->size(), 1);
  EXPECT_EQ(read(*test, 0).label, 7);
}

TEST(Cifar, HundredHasFineAndCoarseLabels) {
  const TempFolder folder;
  folder.write("train.bin", records({{19, 99}, {0, 3}}));
  const DatasetPtr fine = open_cifar(folder.path(), Split::train, CifarLabels::fine);
  const DatasetPtr coarse = open_cifar(folder.path(), Split::train, CifarLabels::coarse);
  EXPECT_EQ(fine->spec().classes, 100);
  EXPECT_EQ(coarse->spec().classes, 20);
  EXPECT_EQ(read(*fine, 0).label, 99);
  EXPECT_EQ(read(*coarse, 0).label, 19);
  EXPECT_EQ(read(*fine, 1).label, 3);
  EXPECT_FLOAT_EQ(read(*fine, 1).values[0], 1.0F / 255);
}

TEST(Cifar, RejectsDamagedFiles) {
  const auto open = [](const Bytes& bytes, CifarLabels labels) {
    cifar_from_bytes({bytes}, {"FILE"}, labels);
  };
  Bytes bytes = records({{1}, {2}});
  bytes.pop_back();
  expect_error([&] { open(bytes, CifarLabels::ten); }, {"FILE", "cut off", "6145 bytes", "offset 3073"});
  expect_error([&] { open({}, CifarLabels::ten); }, {"FILE", "empty"});
  expect_error([&] { open(records({{1}, {10}}), CifarLabels::ten); }, {"FILE", "label 10", "offset 3073"});
  expect_error([&] { open(records({{0, 5}, {20, 5}}), CifarLabels::coarse); }, {"label 20", "offset 3074"});
  expect_error([&] { open(records({{0, 100}}), CifarLabels::fine); }, {"label 100", "offset 1"});
  expect_error([&] { open(records({{1}}), CifarLabels::fine); }, {"CIFAR-100", "3074"});
}

TEST(Cifar, NamesTheFileThatIsMissing) {
  const TempFolder folder;
  folder.write("data_batch_1.bin", records({{1}}));
  expect_error([&] { open_cifar(folder.path(), Split::train, CifarLabels::ten); }, {"data_batch_2.bin"});
  expect_error([&] { open_cifar(folder.path("no"), Split::test, CifarLabels::ten); }, {"no such folder"});
}

}  // namespace
}  // namespace telar::test
