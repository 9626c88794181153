#include <nlohmann/json.hpp>

#include "cli/weave_case.h"
#include "support/paths.h"

#ifdef TELAR_WEAVE
namespace telar::test {
namespace {

namespace fs = std::filesystem;

class WeaveProject : public WeaveCase {
 protected:
  void SetUp() override {
    fs::copy(fs::path(weave_corpus()) / "projects" / "package", folder_ / "project",
             fs::copy_options::recursive);
  }
  std::string text(const std::string& path) const { return read_text(folder_ / path); }
};

TEST_F(WeaveProject, WritesACopyWithTheNecessaryFilesWoven) {
  write_text(folder_ / "project/notes.txt", "kept\n");
  EXPECT_EQ(telar("weave --project project train.py -o out").code, 0);
  EXPECT_TRUE(says(text("out/train.py"), "model = DistributedDataParallel(model)"));
  EXPECT_TRUE(says(text("out/vision/loaders.py"), "sampler=DistributedSampler(train)"));
  EXPECT_TRUE(says(text("out/vision/engine.py"), "self.train_loader.sampler.set_epoch(epoch)"));
  EXPECT_TRUE(says(text("out/vision/report.py"), "os.devnull"));
  EXPECT_TRUE(says(text("out/vision/optimizers.py"), "\"lr\": (RATE / 2) * dist.get_world_size()"));
  for (const char* same : {"vision/nets.py", "vision/config.py", "vision/metrics.py", "notes.txt"})
    EXPECT_EQ(text(std::string("out/") + same), text(std::string("project/") + same)) << same;
  EXPECT_EQ(text("project/train.py"), read_text(fs::path(weave_corpus()) / "projects/package/train.py"));
}

TEST_F(WeaveProject, ChangesTheProjectItselfOnlyWhenAsked) {
  EXPECT_EQ(telar("weave --project project train.py").code, 2);
  EXPECT_EQ(telar("weave --project project train.py -o project").code, 2);
  EXPECT_EQ(telar("weave --project project train.py -o .").code, 2);
  EXPECT_EQ(telar("weave --project nowhere train.py -o out").code, 2);
  EXPECT_EQ(telar("weave --project project other.py -o out").code, 2);
  EXPECT_EQ(telar("weave --project project project/train.py --in-place").code, 0);
  EXPECT_TRUE(says(text("project/vision/engine.py"), "import torch.distributed as dist"));
  EXPECT_TRUE(says(telar("weave --project project train.py --check").err, "already parallel"));
}

TEST_F(WeaveProject, RefusesWithFileAndLine) {
  std::string engine = text("project/vision/engine.py");
  engine.replace(engine.find("            loss.backward()"), 0,
                 "            if loss > 9:\n                break\n");
  write_text(folder_ / "project/vision/engine.py", engine);
  const CommandResult leaves = telar("weave --project project train.py --check");
  EXPECT_EQ(leaves.code, 3);
  EXPECT_TRUE(says(leaves.err, "project/vision/engine.py:22: loss > 9: "));
}

TEST_F(WeaveProject, RefusesFilesThatAreLoadedAtRunTime) {
  std::string script = text("project/train.py");
  script.replace(script.find("    parser = "), 0,
                 "    import importlib\n    importlib.import_module(config.PATH)\n");
  write_text(folder_ / "project/train.py", script);
  EXPECT_TRUE(says(telar("weave --project project train.py --check").err, "load it by an import statement"));
}

TEST_F(WeaveProject, SuggestsProjectForAScriptThatImportsItsOwnFiles) {
  write_text(folder_ / "project/alone.py",
             read_text(fs::path(weave_corpus()) / "mlp_basic.py") + "from vision import config\n");
  const CommandResult alone = telar("weave project/alone.py");
  EXPECT_EQ(alone.code, 3);
  EXPECT_TRUE(says(alone.err, "vision/__init__.py has not been read"));
  EXPECT_TRUE(says(alone.err, "--project"));
}

TEST_F(WeaveProject, SeedsBeforeTheImportOfAFileThatUsesRandomNumbers) {
  std::string script = read_text(fs::path(weave_corpus()) / "mlp_basic.py");
  script.replace(script.find("torch.manual_seed(0)\n"), 21, "from noise import shift\n");
  write_text(folder_ / "project/alone.py", script);
  write_text(folder_ / "project/noise.py", "import torch\n\nshift = torch.randn(8)\n");
  EXPECT_EQ(telar("weave --project project alone.py -o out").code, 0);
  const std::string woven = text("out/alone.py");
  EXPECT_TRUE(says(woven, "torch.manual_seed(0)\n"));
  EXPECT_LT(woven.find("torch.manual_seed(0)\n"), woven.find("from noise import shift"));
  EXPECT_EQ(text("out/noise.py"), text("project/noise.py"));
}

TEST_F(WeaveProject, AnImportedFileCanStillBeRunByItself) {
  const std::string main = "\n\nif __name__ == \"__main__\":\n    print(len(loaders()[0]))\n";
  write_text(folder_ / "project/vision/loaders.py", text("project/vision/loaders.py") + main);
  EXPECT_EQ(telar("weave --project project train.py -o out").code, 0);
  EXPECT_TRUE(
      says(text("out/vision/loaders.py"),
           "if __name__ == \"__main__\":\n    dist.init_process_group(\"gloo\", store=dist.HashStore(), "
           "rank=0, world_size=1)\n    print(len(loaders()[0]))\n"));
  EXPECT_EQ(telar("weave --project project train.py --target horovod -o hvd").code, 0);
  EXPECT_TRUE(says(text("hvd/vision/loaders.py"), "if __name__ == \"__main__\":\n    hvd.init()\n    print"));
  // What weave does not change needs no processes.
  write_text(folder_ / "project/vision/nets.py", text("project/vision/nets.py") + main);
  EXPECT_EQ(telar("weave --project project train.py -o again").code, 0);
  EXPECT_EQ(text("again/vision/nets.py"), text("project/vision/nets.py"));
}

TEST_F(WeaveProject, DescribesTheLocationOfEachPart) {
  const auto program = nlohmann::json::parse(telar("weave --describe --project project train.py").out);
  EXPECT_EQ(program.at("optimizers").at(0).at("file"), "project/vision/optimizers.py");
  EXPECT_EQ(program.at("optimizers").at(0).at("line"), 7);
  EXPECT_EQ(program.at("loops").at(0).at("file"), "project/vision/metrics.py");
  EXPECT_EQ(program.at("loops").at(0).at("does"), "evaluation");
  EXPECT_EQ(program.at("loops").at(1).at("file"), "project/vision/engine.py");
  EXPECT_EQ(program.at("loops").at(1).at("line"), 19);
}

TEST_F(WeaveProject, ReportsASyntaxErrorOfAnImportedFile) {
  write_text(folder_ / "project/vision/config.py", "EPOCHS = = 3\n");
  const CommandResult broken = telar("weave --project project train.py --check");
  EXPECT_EQ(broken.code, 2);
  EXPECT_TRUE(says(broken.err, "vision/config.py\", line 1"));
}

TEST_F(WeaveProject, KeepsLineEndsAndAMissingFinalOne) {
  write_text(
      folder_ / "project/vision/report.py",
      "def write(history):\r\n    with open(\"history.txt\", \"w\") as file:\r\n        file.write(str(history))\r\n"
      "    print(\"written\")");
  EXPECT_EQ(telar("weave --project project train.py -o out").code, 0);
  const std::string report = text("out/vision/report.py");
  EXPECT_TRUE(says(report, "if dist.get_rank() == 0:\r\n        print(\"written\")"));
  EXPECT_FALSE(report.ends_with("\n"));
}

}  // namespace
}  // namespace telar::test
#endif
