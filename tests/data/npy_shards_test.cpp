#include "telar/data/arrays/npy_shards.h"

#include <gtest/gtest.h>

#include <limits>
#include <set>

#include "data/support.h"
#include "support/npy_file.h"
#include "telar/data/arrays/npy.h"
#include "telar/data/file_pattern.h"
#include "telar/data/open_files.h"

namespace telar::test {
namespace {

namespace fs = std::filesystem;

/// The names of the files in a folder that this process has open.
std::set<std::string> open_in(const fs::path& folder) {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator("/proc/self/fd")) {
    std::error_code closed;
    const fs::path file = fs::read_symlink(entry, closed);
    if (!closed && file.parent_path() == fs::canonical(folder)) names.insert(file.filename().string());
  }
  return names;
}

/// Shards of 3, 1 and 4 samples, whose first feature is the sample's number, beside the same in one file.
class NpyShardFiles : public testing::Test {
 protected:
  NpyShardFiles() {
    std::vector<float> all_features;
    std::vector<int64_t> all_labels;
    int64_t sample = 0;
    for (const auto& [name, size] : {std::pair("a", 3), {"b", 1}, {"c", 4}}) {
      std::vector<float> features;
      std::vector<int64_t> labels;
      for (int i = 0; i < size; ++i, ++sample) {
        features.insert(features.end(), {static_cast<float>(sample), static_cast<float>(sample) / 7});
        labels.push_back(sample % 5);
      }
      write_npy(path(fmt::format("x-{}.npy", name)), features, {2});
      write_npy(path(fmt::format("label-{}.npy", name)), labels);
      all_features.insert(all_features.end(), features.begin(), features.end());
      all_labels.insert(all_labels.end(), labels.begin(), labels.end());
    }
    write_npy(path("all.npy"), all_features, {2});
    write_npy(path("all-labels.npy"), all_labels);
  }

  std::string path(const std::string& name) const { return folder_.path(name); }
  DatasetPtr open(int64_t classes = 5) const {
    return open_npy_shards(path("x-*.npy"), path("label-*.npy"), classes);
  }
  void refused(const std::vector<std::string_view>& pieces) const {
    expect_error([&] { open(); }, pieces);
  }

  TempFolder folder_;
};

TEST_F(NpyShardFiles, AreReadLikeOneFile) {
  const DatasetPtr one = open_npy(path("all.npy"), path("all-labels.npy"), 5);
  const DatasetPtr shards = open();
  ASSERT_EQ(shards->size(), one->size());
  EXPECT_EQ(shards->spec().features, one->spec().features);
  for (const int64_t i : {7, 0, 2, 3, 4, 1, 5, 6}) EXPECT_EQ(read(*shards, i), read(*one, i)) << i;
}

TEST_F(NpyShardFiles, AreOpenedWhenTheirSamplesAreRead) {
  const DatasetPtr shards = open();
  EXPECT_EQ(open_in(folder_.path()), (std::set<std::string>{}));
  read(*shards, 3);
  EXPECT_EQ(open_in(folder_.path()), (std::set<std::string>{"x-b.npy", "label-b.npy"}));
}

TEST_F(NpyShardFiles, AreNotAllOpenAtTheSameTime) {
  const OpenFiles files({path("x-a.npy"), path("x-b.npy"), path("x-c.npy")}, 2);
  std::byte byte{};
  for (const size_t file : {0, 1, 2, 2, 1}) files.read(file, 0, {&byte, 1});
  EXPECT_EQ(open_in(folder_.path()), (std::set<std::string>{"x-b.npy", "x-c.npy"}));
  files.read(0, 0, {&byte, 1});
  EXPECT_EQ(open_in(folder_.path()), (std::set<std::string>{"x-a.npy", "x-c.npy"}));
  EXPECT_EQ(byte, std::byte{0x93});
}

TEST_F(NpyShardFiles, OfBytesAndTokensAndTargetsAreReadLikeOneFile) {
  const auto same = [&](int64_t classes) {
    const DatasetPtr one = open_npy(path("x-a.npy"), path("label-a.npy"), classes);
    const DatasetPtr shards = open(classes);
    for (const int64_t i : {0, 1, 2}) EXPECT_EQ(read(*shards, i), read(*one, i));
  };
  for (const char* name : {"b", "c"}) {
    fs::remove(path(fmt::format("x-{}.npy", name)));
    fs::remove(path(fmt::format("label-{}.npy", name)));
  }
  write_npy<uint8_t>(path("x-a.npy"), {0, 1, 2, 127, 254, 255}, {2});
  same(5);
  write_npy<int64_t>(path("x-a.npy"), {0, -1, 2, 2147483647, 4, 5}, {2});
  same(5);
  write_npy<double>(path("x-a.npy"), {0.5, 1e-3, -2, 3e10, 4, 5}, {2});
  write_npy<float>(path("label-a.npy"), {0.25F, 1, 2, 3, 4, 5}, {2});
  same(0);
}

TEST_F(NpyShardFiles, MustComeInPairs) {
  fs::remove(path("label-b.npy"));
  refused({"x-b.npy: there is no file with 'b' in the place of the '*' of ", "label-*.npy"});
  fs::remove(path("x-b.npy"));
  EXPECT_EQ(open()->size(), 7);
  fs::remove(path("x-c.npy"));
  refused({"label-c.npy: there is no file with 'c'", "x-*.npy"});
}

TEST_F(NpyShardFiles, MustHaveOneForm) {
  write_npy<float>(path("x-c.npy"), std::vector<float>(12), {3});
  refused({"x-c.npy has samples of f4 [3], but ", "x-a.npy of f4 [2]; all shards must have the same"});
  write_npy<double>(path("x-c.npy"), std::vector<double>(8), {2});
  refused({"x-c.npy has samples of f8 [2], but ", "x-a.npy of f4 [2]"});
  write_npy<float>(path("x-c.npy"), std::vector<float>(8), {2});
  write_npy<int32_t>(path("label-c.npy"), std::vector<int32_t>(4));
  refused({"label-c.npy has samples of i4 [], but ", "label-a.npy of i8 []"});
  write_npy<int64_t>(path("label-c.npy"), std::vector<int64_t>(3));
  refused({"x-c.npy has 4 samples [4, 2], but ", "label-c.npy has 3 [3]"});
}

TEST_F(NpyShardFiles, ThatAreDamagedAreRefused) {
  fs::resize_file(path("x-b.npy"), fs::file_size(path("x-b.npy")) - 1);
  refused({"x-b.npy: its shape [1, 2] of f4 needs 8 bytes after offset 128, but there are 7"});
  fs::resize_file(path("x-b.npy"), 50);
  refused({"x-b.npy: is cut off at offset 50"});
  fs::resize_file(path("x-b.npy"), 0);
  refused({"x-b.npy: is not an npy file"});
}

TEST_F(NpyShardFiles, ThatBecomeShorterEndWithASentence) {
  const DatasetPtr shards = open();
  fs::resize_file(path("x-c.npy"), 130);
  expect_error([&] { read(*shards, 4); }, {"x-c.npy: has no byte 130, but was longer"}, Error::Kind::run);
  fs::remove(path("x-b.npy"));
  expect_error([&] { read(*shards, 3); }, {"x-b.npy: was listed in its folder, but cannot be read"},
               Error::Kind::run);
}

TEST_F(NpyShardFiles, ValuesAreCheckedWhenTheyAreRead) {
  write_npy<float>(path("x-b.npy"), {1, std::numeric_limits<float>::infinity()}, {2});
  write_npy<int64_t>(path("label-c.npy"), {0, 5, 0, 0});
  const DatasetPtr shards = open();
  expect_error([&] { read(*shards, 3); }, {"x-b.npy: the value inf at [0, 1]"});
  read(*shards, 4);
  expect_error([&] { read(*shards, 5); }, {"label-c.npy: the value 5 at [1] is outside 0 … 4"});
}

TEST_F(NpyShardFiles, AHeaderOfHundredsOfMegabytesIsNotRead) {
  std::string start("\x93NUMPY\2\0\0\0\0\x20", 12);
  std::ofstream(path("x-b.npy"), std::ios::binary) << start;
  fs::resize_file(path("x-b.npy"), uint64_t{1} << 30U);  // sparse
  refused({"x-b.npy: its header has 536870924 bytes; at most 65536 are supported"});
}

TEST_F(NpyShardFiles, APatternHasOneStarInTheName) {
  EXPECT_TRUE(is_file_pattern(path("x-*.npy")));
  EXPECT_FALSE(is_file_pattern(path("all.npy")));
  std::ofstream(path("a*b.npy")) << "";
  EXPECT_FALSE(is_file_pattern(path("a*b.npy"))) << "a file has this name";
  expect_error([&] { files_of_pattern(path("*-*.npy")); }, {"it must have one '*'"});
  expect_error([&] { files_of_pattern(path("y-*.npy")); }, {"y-*.npy: there are no such files"});
  expect_error([&] { files_of_pattern(path("none/y-*.npy")); }, {"none: there is no such folder"});
}

TEST(NpyShardSizes, ABillionSamplesAreOpenedFromTheirHeaders) {
  const TempFolder folder;
  constexpr int64_t kEach = 500'000'000;
  for (const char* name : {"0", "1"}) {
    for (const char* array : {"x", "label"}) {
      const std::string file = folder.path(fmt::format("{}-{}.npy", array, name));
      std::ofstream(file, std::ios::binary) << npy_header("|u1", fmt::format("({},)", kEach));
      fs::resize_file(file, 128 + kEach);  // sparse
    }
  }
  const DatasetPtr shards = open_npy_shards(folder.path("x-*.npy"), folder.path("label-*.npy"), 5);
  EXPECT_EQ(shards->size(), 2 * kEach);
  std::fstream(folder.path("label-1.npy"), std::ios::binary | std::ios::in | std::ios::out)
      .seekp(128 + kEach - 1)
      .put(3);
  EXPECT_EQ(read(*shards, 2 * kEach - 1).label, 3);
}

}  // namespace
}  // namespace telar::test
