#include <gtest/gtest.h>
#include <sys/mount.h>

#include <algorithm>
#include <cstdlib>
#include <optional>

#include "cli/command.h"
#include "cli/idx_files.h"
#include "support/sentences.h"

namespace telar::test {
namespace {

namespace fs = std::filesystem;

/// Sets an environment variable, and restores its former value at the end.
class ChangedEnvironment {
 public:
  // NOLINTBEGIN(concurrency-mt-unsafe): one thread
  ChangedEnvironment(const char* name, const char* value) : name_(name) {
    if (const char* before = std::getenv(name)) before_ = before;
    ::setenv(name, value, 1);
  }
  ~ChangedEnvironment() {
    if (before_) ::setenv(name_, before_->c_str(), 1);
    if (!before_) ::unsetenv(name_);
  }
  // NOLINTEND(concurrency-mt-unsafe)
  ChangedEnvironment(const ChangedEnvironment&) = delete;
  ChangedEnvironment& operator=(const ChangedEnvironment&) = delete;

 private:
  const char* name_;
  std::optional<std::string> before_;
};

class BadInput : public testing::Test {
 protected:
  void SetUp() override {
    std::string pixels = idx_images(40, 40);
    pixels.back() = 0;  // not all the same, which is worth a warning
    images("train", pixels, idx_labels(40));
    images("t10k", idx_images(20, 20), idx_labels(20));
    write_text(folder_ / "job.yaml",
               "model: mlp\ndata: {source: idx, path: data}\ntraining: {epochs: 1, batch: 8}\n");
  }

  void images(const std::string& part, const std::string& pixels, const std::string& labels) {
    write_text(folder_ / "data" / (part + "-images-idx3-ubyte"), pixels);
    write_text(folder_ / "data" / (part + "-labels-idx1-ubyte"), labels);
  }

  CommandResult telar(const std::string& arguments) const { return telar_in(folder_.path(), arguments); }

  /// Every file in the folder and below, with its content.
  std::vector<std::pair<std::string, std::string>> everything() const {
    std::vector<std::pair<std::string, std::string>> files;
    for (const auto& entry : fs::recursive_directory_iterator(folder_.path())) {
      files.emplace_back(entry.path().string(), entry.is_regular_file() ? read_text(entry.path()) : "");
    }
    std::sort(files.begin(), files.end());
    return files;
  }

  /// Expects exit code 2, one error message that contains these parts, and no changed file.
  void expect_refused(const std::string& arguments, const std::vector<std::string>& parts) const {
    const auto before = everything();
    const CommandResult result = telar(arguments);
    EXPECT_EQ(result.code, 2) << arguments << "\n" << result.out << result.err;
    EXPECT_EQ(result.err.rfind("error: ", 0), 0U) << result.err;
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
    for (const std::string& part : parts) EXPECT_TRUE(says(result.err, part)) << arguments;
    EXPECT_EQ(everything(), before) << arguments;
  }

  TempFolder folder_;
};

TEST_F(BadInput, TheValidJobRunsAndPredicts) {
  EXPECT_EQ(telar("train job.yaml").code, 0);
  const CommandResult predicted = telar("predict runs/job-1 data/t10k-images-idx3-ubyte --all");
  EXPECT_EQ(predicted.code, 0) << predicted.err;
  EXPECT_EQ(std::count(predicted.out.begin(), predicted.out.end(), '\n'), 21);
  EXPECT_TRUE(says(predicted.out, "input,sample,class,probability,p(0),p(1)"));
}

TEST_F(BadInput, DataFiles) {
  expect_refused("train job.yaml --set data.path=nowhere", {"nowhere"});
  images("train", idx_images(40, 39), idx_labels(40));
  expect_refused("train job.yaml", {"train-images-idx3-ubyte"});
  images("train", idx_images(4000000000U, 40), idx_labels(40));
  expect_refused("train job.yaml", {"train-images-idx3-ubyte"});
  images("train", idx_images(40, 40), idx_labels(39));
  expect_refused("train job.yaml", {"40", "39"});
  images("train", idx_images(40, 40), idx_labels(40, 10));
  expect_refused("train job.yaml", {"train-labels-idx1-ubyte", "10"});
  images("train", idx_labels(40), idx_images(40, 40));
  expect_refused("train job.yaml", {"train-labels-idx1-ubyte", "exchanged"});
}

TEST_F(BadInput, SizesThatDoNotMatch) {
  expect_refused("train job.yaml --set model=alexnet", {"--set model=alexnet", "[1, 28, 28]"});
  images("t10k", idx_images(20, 20, 27), idx_labels(20));
  expect_refused("train job.yaml", {"[1, 28, 28]", "[1, 27, 27]"});
}

TEST_F(BadInput, InfinityInATable) {
  std::string table = "a,b,label\n1,2,0\n1,inf,1\n";
  for (int row = 0; row < 10; ++row) table += "1,2,1\n";
  write_text(folder_ / "t.csv", table);
  expect_refused("train job.yaml --set 'data={source: csv, path: t.csv, classes: 2}'", {"t.csv", "3"});
}

TEST_F(BadInput, Jobs) {
  expect_refused("train nowhere.yaml", {"nowhere.yaml"});
  expect_refused("train job.yaml --set training.batch=0", {"training.batch", "at least 1"});
  expect_refused("train job.yaml --set 'strategy={name: mirrored, replicas: 0}'",
                 {"strategy.replicas", "at least 1"});
  expect_refused("train job.yaml --set model=resnet35", {"resnet35", "did you mean 'resnet34'"});
  expect_refused("train job.yaml --set strategy=mirored", {"did you mean 'mirrored'"});
  expect_refused("train job.yaml --set strategy.device=tpu",
                 {"--set strategy.device=tpu", "no device 'tpu'", "cpu", "cuda:N"});
  expect_refused("train job.yaml --set 'device=[]'", {"strategy.devices is empty"});
  expect_refused("train /dev/zero", {"the job /dev/zero is a device"});
  expect_refused("train - < /dev/zero", {"more than 4.0 MiB"});
  expect_refused("train job.yaml --set name=../../x", {"name is", "runs/NAME-N", "letters, digits"});
  expect_refused("weave /dev/zero", {"/dev/zero"});
  expect_refused("train job.yaml --no-such-flag", {"--no-such-flag"});
  expect_refused("predict run x.csv --accept-changed-data",
                 {"--accept-changed-data is for messages (--from)"});
  expect_refused("trian job.yaml", {"did you mean train?"});
  expect_refused("", {"telar --help"});
}

TEST_F(BadInput, Addresses) {
  ASSERT_EQ(telar("train job.yaml --quiet --output run").code, 0);
  const std::string address = "s3://bucket/some";
  for (const char* arguments :
       {"train job.yaml --output ", "train job.yaml --check --output ", "train job.yaml --resume --output ",
        "train job.yaml --set output.folder=", "train job.yaml --output new --summary ",
        "train job.yaml --output new --profile ", "train ", "serve --snapshots ",
        "bench scaling job.yaml --output ", "bench scaling --output "})
    expect_refused(arguments + address, {address + " is an address", "mount the storage"});
  for (const char* arguments : {"predict run ", "evaluate run --summary "}) {
    const CommandResult refused = telar(arguments + address);
    EXPECT_EQ(refused.code, 2) << arguments;
    EXPECT_TRUE(says(refused.err, address + " is an address")) << arguments;
  }
  expect_refused("train job.yaml --set data.path=" + address, {"data.path: " + address + " is an address"});
  expect_refused(
      "train job.yaml --set data.source=npy --set data.path=x.npy --set data.label_path=" + address,
      {"data.label_path: " + address + " is an address"});
  expect_refused("train job.yaml --output '~/run'", {"~/run: only a shell replaces ~"});
  expect_refused("train job.yaml --set data.path='~/x.npy'", {"data.path: ~/x.npy: only a shell"});
}

TEST_F(BadInput, UnwritableResultFiles) {
  for (const char* option : {"--summary nowhere/s.json", "--summary data", "--profile=nowhere/t.json"}) {
    const CommandResult trained =
        telar_in(folder_.path(), std::string("train job.yaml --output unwritten ") + option);
    EXPECT_EQ(trained.code, 2) << option;
    EXPECT_TRUE(says(trained.err, "folder")) << trained.err;
    EXPECT_FALSE(std::filesystem::exists(folder_ / "unwritten")) << "it was found before the training";
  }
  // A folder that the run makes may be missing before.
  EXPECT_EQ(telar_in(folder_.path(), "train job.yaml --check --output new/run --summary new/s.json").code, 0);
  const CommandResult nowhere = telar_in(folder_.path(), "bench matmul --sizes 100000 --json nowhere/x.json");
  EXPECT_EQ(nowhere.code, 2);
  EXPECT_TRUE(says(nowhere.err, "--json: there is no folder"));
  const CommandResult folder = telar_in(folder_.path(), "bench matmul --sizes 100000 --html data");
  EXPECT_EQ(folder.code, 2);
  EXPECT_TRUE(says(folder.err, "data is a folder"));
}

TEST_F(BadInput, MoreThreadsThanTheEnvironmentAllows) {
  const ChangedEnvironment limit("OMP_THREAD_LIMIT", "1");
  expect_refused("train job.yaml --set strategy.threads=2", {"2 threads", "OMP_THREAD_LIMIT", "allows 1"});
  EXPECT_EQ(telar("train job.yaml --quiet").code, 0);
}

TEST_F(BadInput, CheckpointsThatAreDamagedOrOfAnotherModel) {
  ASSERT_EQ(telar("train job.yaml --output run --quiet").code, 0);
  expect_refused("train job.yaml --output run", {"already contains a run"});
  expect_refused("train job.yaml --output run --resume --set model.options.hidden=[8]",
                 {"the models differ"});
  expect_refused("evaluate run --set model.options.hidden=[8]",
                 {"'fc1.weight' is [256, 784] in the file and [8, 784]"});
  expect_refused("evaluate data", {"neither a run folder nor a checkpoint"});
  const fs::path weights = folder_ / "run" / "checkpoints" / "step-00000005" / "model.safetensors";
  ASSERT_TRUE(fs::exists(weights));
  fs::resize_file(weights, 1000);
  expect_refused("evaluate run", {"model.safetensors has 1000 bytes"});
  expect_refused("predict run/checkpoints/step-00000005 data/t10k-images-idx3-ubyte", {"model.safetensors"});
  expect_refused("train run --resume", {"damaged"});
}

TEST_F(BadInput, AFullDisk) {
  const fs::path disk = folder_ / "disk";
  fs::create_directory(disk);
  if (::mount("tmpfs", disk.c_str(), "tmpfs", 0, "size=256k") != 0) {
    GTEST_SKIP() << "a small file system cannot be mounted here";
  }
  write_text(disk / "kept", std::string(100'000, 'x'));
  expect_refused("train job.yaml --output disk/run", {"disk/run", "free"});
  ::umount(disk.c_str());
}

// The logs of 10,000 steps need more than the 1 MiB of free space that is required before a run.
TEST_F(BadInput, ADiskThatFillsDuringTheRun) {
  const fs::path disk = folder_ / "disk";
  fs::create_directory(disk);
  if (::mount("tmpfs", disk.c_str(), "tmpfs", 0, "size=1400k") != 0) {
    GTEST_SKIP() << "a small file system cannot be mounted here";
  }
  const CommandResult filled = telar(
      "train job.yaml --quiet --output disk/run --set model.options.hidden=[4] --set training.epochs=2000 --set output.checkpoint_epochs=0 --set strategy.threads=1");
  ::umount(disk.c_str());
  EXPECT_EQ(filled.code, 2);
  EXPECT_TRUE(says(filled.err, "No space left on device"));
}

}  // namespace
}  // namespace telar::test
