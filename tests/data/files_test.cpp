#include "telar/data/files.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>

#include "data/support.h"
#include "telar/observe/process.h"

namespace telar::test {
namespace {

TEST(ReadFile, RefusesWhatDoesNotFitInMemory) {
  const TempFolder folder;
  const std::string path = folder.write("large.npy", Bytes{'x'});
  std::error_code error;
  std::filesystem::resize_file(path, 2 * usable_memory_bytes(), error);  // takes no space on the disk
  if (error) GTEST_SKIP() << "NOT TESTED: this file system has no files of twice the memory";
  expect_error([&] { read_file(path); }, {"large.npy", "do not fit in this machine's memory"});
}

TEST(ReadFile, ReadsNeitherDevicesNorPipes) {
  const TempFolder folder;
  expect_error([] { read_file("/dev/zero"); }, {"/dev/zero: is a device or pipe"});
  ASSERT_EQ(::mkfifo(folder.path("pipe").c_str(), 0600), 0);
  expect_error([&] { read_gzip(folder.path("pipe"), 10); }, {"is a device or pipe"});
}

}  // namespace
}  // namespace telar::test
