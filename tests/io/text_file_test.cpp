#include "telar/io/text_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <fstream>
#include <thread>

#include "io/temp_folder.h"
#include "support/sentences.h"
#include "telar/io/disk.h"

namespace telar {
namespace {

using test::expect_error;
using test::TempFolder;

class TextFile : public testing::Test {
 protected:
  std::string write(const std::string& text) const {
    std::ofstream(folder_ / "a.txt") << text;
    return (folder_ / "a.txt").string();
  }
  TempFolder folder_;
};

TEST_F(TextFile, IsReadWhole) {
  EXPECT_EQ(read_text_file(write(std::string("a\0b\n", 4)), "the job"), std::string("a\0b\n", 4));
  EXPECT_EQ(read_text_file(write(""), "the job"), "");
}

TEST_F(TextFile, MayBeAPipe) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  ASSERT_EQ(::write(ends[1], "model: mlp", 10), 10);
  ::close(ends[1]);
  EXPECT_EQ(read_text_file("/dev/fd/" + std::to_string(ends[0]), "the job"), "model: mlp");
  ::close(ends[0]);
}

TEST_F(TextFile, IsNeitherADeviceNorAFolder) {
  expect_error([] { read_text_file("/dev/zero", "the job"); },
               {"the job /dev/zero is a device", "file, a pipe"});
  expect_error([] { read_text_file("/dev/null", "the job"); }, {"device"});
  expect_error([&] { read_text_file(folder_.path(), "the job"); }, {"folder"});
  expect_error([&] { read_text_file(folder_ / "no", "the job"); }, {"cannot read the job", "No such file"});
}

TEST_F(TextFile, WaitsForTheWriterOfAPipeButNotForEver) {
  const std::string path = (folder_ / "pipe").string();
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  expect_error([&] { read_text_file(path, "the job", std::chrono::milliseconds(20)); },
               {"the job", "is a pipe that brought nothing for 0.02 seconds"});
  std::jthread writer([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    std::ofstream(path) << "late";
  });
  EXPECT_EQ(read_text_file(path, "the job"), "late");
}

TEST_F(TextFile, HasALimit) {
  EXPECT_EQ(read_text_file(write(std::string(kMostTextBytes, 'x')), "the job").size(), kMostTextBytes);
  expect_error([&] { read_text_file(write(std::string(kMostTextBytes + 1, 'x')), "the job"); },
               {"a.txt has more than 4.0 MiB"});
}

TEST(DiskError, NamesTheFreeSpaceOnlyIfThereIsTooLittle) {
  EXPECT_TRUE(test::says(disk_error("write", "/tmp/a", ENOSPC).what(), "free on that disk"));
  EXPECT_TRUE(test::says(disk_error("write", "/tmp/a", EDQUOT).what(), "free on that disk"));
  EXPECT_STREQ(disk_error("write", "/tmp/a", EACCES).what(), "cannot write /tmp/a: Permission denied");
}

}  // namespace
}  // namespace telar
