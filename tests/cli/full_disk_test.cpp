#include <gtest/gtest.h>
#include <sys/mount.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "support/paths.h"
#include "support/sentences.h"

namespace telar::test {
namespace {

/// A disk of 256 MB, which the log of a few seconds does not fill.
class FullDisk : public testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directories(disk_);
    if (::mount("telar-test", disk_.c_str(), "tmpfs", 0, "size=256m") != 0)
      GTEST_SKIP() << "NOT TESTED: a small file system cannot be mounted here (it needs root)";
    mounted_ = true;
    write_text(folder_ / "small.yaml",
               "model: {name: mlp, options: {hidden: [16]}}\n"
               "data: {source: synthetic, samples: 300, test_samples: 60, shape: [1, 6, 6], classes: 3}\n"
               "training: {epochs: 1000000, batch: 32}\n"
               "output: {checkpoint_epochs: 0}\n");
  }
  void TearDown() override {
    if (mounted_) ::umount2(disk_.c_str(), MNT_DETACH);
  }

  TempFolder folder_;
  const std::filesystem::path disk_ = folder_ / "disk";
  bool mounted_ = false;
};

TEST_F(FullDisk, TrainingGoesOnWithoutItsLogAndSaysSoOnce) {
  write_text(folder_ / "script.sh",
             "'" + telar_program() +
                 "' train small.yaml --output disk/run >out 2>err & job=$!\n"
                 "for i in $(seq 600); do [ -s disk/run/metrics.jsonl ] && break; sleep 0.1; done\n"
                 "head -c 512M /dev/zero >disk/fill\n"
                 "for i in $(seq 300); do [ -s err ] && break; sleep 0.1; done; sleep 1\n"
                 "rm disk/fill; sleep 1; kill -TERM $job; wait $job; exit $?\n");
  const std::string line = "cd '" + folder_.path().string() + "' && bash script.sh 2>/dev/null";
  const int status = std::system(line.c_str());  // NOLINT(concurrency-mt-unsafe): one thread
  const std::string err = read_text(folder_ / "err");
  EXPECT_EQ(WEXITSTATUS(status), 143) << err;
  const std::string warning = "No space left on device";
  EXPECT_TRUE(says(err, warning));
  EXPECT_EQ(err.find(warning), err.rfind(warning)) << err;
  EXPECT_TRUE(says(err, "the training continues"));
  EXPECT_TRUE(says(read_text(folder_ / "out"), "telar train disk/run --resume")) << "it saved a checkpoint";
  std::ifstream metrics(disk_ / "run" / "metrics.jsonl");
  for (std::string text; std::getline(metrics, text);) EXPECT_TRUE(nlohmann::json::accept(text)) << text;
}

}  // namespace
}  // namespace telar::test
