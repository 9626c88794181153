#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/command.h"

#ifdef TELAR_CORPUS
namespace telar::test {
namespace {

namespace fs = std::filesystem;

testing::AssertionResult says(const std::string& text, const std::string& part) {
  if (text.find(part) != std::string::npos) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "'" << part << "' is not in: " << text;
}

class Weave : public testing::Test {
 protected:
  void SetUp() override { write_text(folder_ / "train.py", script_); }
  CommandResult telar(const std::string& arguments) const { return telar_in(folder_.path(), arguments); }

  std::string script_ = read_text(fs::path(TELAR_CORPUS) / "mlp_basic.py");
  TempFolder folder_;
};

TEST_F(Weave, WritesTheParallelScriptAndLeavesTheInputAlone) {
  EXPECT_EQ(telar("weave train.py -o out.py").code, 0);
  EXPECT_EQ(read_text(folder_ / "train.py"), script_);
  const std::string woven = read_text(folder_ / "out.py");
  EXPECT_TRUE(says(woven, "model = DistributedDataParallel(model)"));
  EXPECT_TRUE(says(woven, "# Two noisy blobs."));
  EXPECT_EQ(telar("weave train.py -o train.py").code, 2);
  EXPECT_EQ(telar("weave --in-place train.py").code, 0);
  EXPECT_EQ(read_text(folder_ / "train.py"), woven);
}

TEST_F(Weave, LeavesAParallelScriptAlone) {
  EXPECT_EQ(telar("weave train.py -o out.py").code, 0);
  const CommandResult again = telar("weave out.py");
  EXPECT_EQ(again.code, 0);
  EXPECT_EQ(again.out, read_text(folder_ / "out.py"));
  EXPECT_TRUE(says(again.err, "parallel already"));
}

TEST_F(Weave, KeepsLineEndsMarksAndEncodings) {
  std::string windows;
  for (const char c : script_) windows += c == '\n' ? std::string("\r\n") : std::string(1, c);
  write_text(folder_ / "windows.py", "\xef\xbb\xbf" + windows);
  const std::string woven = telar("weave windows.py").out;
  EXPECT_TRUE(woven.starts_with("\xef\xbb\xbf"));
  EXPECT_EQ(std::count(woven.begin(), woven.end(), '\n'), std::count(woven.begin(), woven.end(), '\r'));
  write_text(folder_ / "latin.py", "# -*- coding: latin-1 -*-\n# ni\xf1o\n" + script_);
  EXPECT_TRUE(says(telar("weave latin.py").out, "# ni\xf1o\n"));
}

TEST_F(Weave, RefusesWhatItDoesNotUnderstandWithItsLine) {
  write_text(
      folder_ / "by_hand.py",
      "import torch\nmodel = torch.nn.Linear(1, 1)\noptimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
      "x = torch.rand(8, 1)\nfor step in range(9):\n    model(x).sum().backward()\n    optimizer.step()\n");
  const CommandResult result = telar("weave --check by_hand.py");
  EXPECT_EQ(result.code, 3);
  EXPECT_TRUE(says(result.err, "by_hand.py:6: model(x).sum().backward(): "));
  EXPECT_TRUE(says(result.err, "DataLoader"));
  write_text(folder_ / "plain.py", "print('hello')\n");
  EXPECT_EQ(telar("weave plain.py").code, 3);
  std::string broken = script_;
  broken.replace(broken.find("loss.backward()"), 15, "loss.backward()\n        if torch.isnan(loss): break");
  write_text(folder_ / "leaves.py", broken);
  EXPECT_TRUE(says(telar("weave leaves.py").err, "for ever"));
}

TEST_F(Weave, ReportsBadInputInASentence) {
  write_text(folder_ / "two.py", "import os\nprint 'hello'\n");
  const CommandResult two = telar("weave two.py");
  EXPECT_EQ(two.code, 2);
  EXPECT_TRUE(says(two.err, "line 2\n    print 'hello'\n    ^"));
  write_text(folder_ / "bytes.py", "# \xff\xfe\n");
  EXPECT_EQ(telar("weave bytes.py").code, 2);
  write_text(folder_ / "null.py", std::string("a = 1\n\0\n", 8));
  EXPECT_EQ(telar("weave null.py").code, 2);
  EXPECT_EQ(telar("weave nowhere.py").code, 2);
  EXPECT_EQ(telar("weave train.py --target tpu").code, 2);
}

TEST_F(Weave, DescribesWhatItUnderstood) {
  const auto program = nlohmann::json::parse(telar("weave --describe train.py").out);
  EXPECT_EQ(program.at("models").at(0).at("name"), "model");
  EXPECT_EQ(program.at("optimizers").at(0).at("kind"), "torch.optim.SGD");
  EXPECT_EQ(program.at("optimizers").at(0).at("options").at("lr"), 0.1);
  EXPECT_EQ(program.at("data").at(0).at("trains"), true);
}

TEST_F(Weave, WritesHorovod) {
  const std::string woven = telar("weave --target horovod train.py").out;
  for (const char* part :
       {"import horovod.torch as hvd\n", "hvd.init()\n", "torch.cuda.set_device(hvd.local_rank())",
        "lr=0.1 * hvd.size()", "hvd.broadcast_parameters(model.state_dict(), root_rank=0)",
        "hvd.broadcast_optimizer_state(optimizer, root_rank=0)",
        "optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())",
        "DistributedSampler(train_set, num_replicas=hvd.size(), rank=hvd.rank())", "if hvd.rank() == 0:"}) {
    EXPECT_TRUE(says(woven, part));
  }
}

class WeaveKeras : public testing::Test {
 protected:
  CommandResult weave(const std::string& arguments, const std::string& script) const {
    write_text(folder_ / "train.py", script);
    return telar_in(folder_.path(), "weave " + arguments + " train.py");
  }
  /// A script with one line in its middle, between compile and evaluation.
  static std::string script(const std::string& optimizer, const std::string& fit) {
    return "import tensorflow as tf\nfrom data import x, y, batches\n"
           "model = tf.keras.Sequential([tf.keras.layers.Dense(1)])\n"
           "model.compile(optimizer=" +
           optimizer + ", loss='mse')\n" + fit + "\nprint(model.evaluate(x, y))\nmodel.save('model.h5')\n";
  }
  TempFolder folder_;
};

TEST_F(WeaveKeras, TakesTheStepsOfDocument001) {
  const std::string woven =
      weave("--epochs divide", script("tf.keras.optimizers.SGD(0.1)", "model.fit(x, y, epochs=12)")).out;
  for (const char* part :
       {"import horovod.tensorflow.keras as hvd\n", "hvd.init()\n", "gpus[hvd.local_rank()]",
        "hvd.DistributedOptimizer(tf.keras.optimizers.SGD(0.1 * hvd.size()))",
        "epochs=math.ceil(12 / hvd.size())", "hvd.callbacks.BroadcastGlobalVariablesCallback(0)",
        "if hvd.rank() == 0:\n    print(model.evaluate(x, y"}) {
    EXPECT_TRUE(says(woven, part));
  }
  EXPECT_EQ(woven.find("share("), std::string::npos);
}

TEST_F(WeaveKeras, SharesOutTheSamplesUnlessEpochsAreDivided) {
  const std::string woven = weave("", script("'adam'", "model.fit(x, y, batch_size=8, epochs=2)")).out;
  EXPECT_TRUE(says(woven, "model.fit(share(x), share(y), batch_size=8, epochs=2"));
  EXPECT_TRUE(says(woven, "tf.keras.optimizers.Adam(learning_rate=0.001 * hvd.size())"));
  const std::string kept =
      weave("--global-batch keep", script("'adam'", "model.fit(x, y, batch_size=8, epochs=2)")).out;
  EXPECT_TRUE(says(kept, "batch_size=8 // hvd.size()"));
  EXPECT_TRUE(says(kept, "learning_rate=0.001)"));
}

TEST_F(WeaveKeras, WarmsUpWhenAsked) {
  EXPECT_TRUE(says(weave("--warmup 3", script("'sgd'", "model.fit(x, y)")).out,
                   "hvd.callbacks.LearningRateWarmupCallback(initial_lr="));
}

TEST_F(WeaveKeras, WritesTensorFlowsStrategies) {
  const std::string woven =
      weave("--target tf-distribute", script("'adam'", "model.fit(x, y, steps_per_epoch=10)")).out;
  for (const char* part : {"tf.distribute.MultiWorkerMirroredStrategy() if \"TF_CONFIG\" in os.environ",
                           "with strategy.scope():\n    model = ", "0.001 * strategy.num_replicas_in_sync",
                           "steps_per_epoch=10 // strategy.num_replicas_in_sync"}) {
    EXPECT_TRUE(says(woven, part));
  }
}

TEST_F(WeaveKeras, RefusesWhatItCannotShareOut) {
  const CommandResult unknown = weave("", script("'adam'", "model.fit(batches)"));
  EXPECT_EQ(unknown.code, 3);
  EXPECT_TRUE(says(unknown.err, "train.py:5: batches: "));
  const CommandResult by_batch = weave("", script("'adam'", "model.train_on_batch(x[:8], y[:8])"));
  EXPECT_EQ(by_batch.code, 3);
  const CommandResult optimizer = weave("", script("make()", "model.fit(x, y)"));
  EXPECT_TRUE(says(optimizer.err, "optimizer"));
  const CommandResult backup =
      weave("", script("'adam'", "model.fit(x, y, callbacks=[tf.keras.callbacks.BackupAndRestore('b')])"));
  EXPECT_TRUE(says(backup.err, "after a restart"));
  EXPECT_EQ(weave("--target ddp", script("'adam'", "model.fit(x, y)")).code, 2);
}

TEST_F(WeaveKeras, IsDescribedLikePyTorch) {
  const auto program = nlohmann::json::parse(weave("--describe", script("'adam'", "model.fit(x, y)")).out);
  EXPECT_EQ(program.at("framework"), "keras");
  EXPECT_EQ(program.at("models").at(0).at("made").at(0).at("layers").at(0).at("kind"), "keras.layers.Dense");
  EXPECT_EQ(program.at("optimizers").at(0).at("kind"), "adam");
  EXPECT_EQ(program.at("loops").at(0).at("does"), "training");
}

TEST_F(Weave, StartsNcclOnlyWhereTheScriptUsesAGpu) {
  EXPECT_TRUE(says(telar("weave train.py").out, "\"nccl\" if torch.cuda.is_available()"));
  std::string processor = script_;
  processor.replace(processor.find("torch.device("),
                    processor.find('\n', processor.find("torch.device(")) - processor.find("torch.device("),
                    "torch.device(\"cpu\")");
  write_text(folder_ / "processor.py", processor);
  EXPECT_TRUE(says(telar("weave processor.py").out, "dist.init_process_group(\"gloo\")"));
}

TEST_F(Weave, GivesHorovodWhatItsOptimizerTakes) {
  std::string text = script_;
  text.replace(text.find("optimizer.zero_grad()"), 21, "optimizer.zero_grad(set_to_none=True)");
  text.replace(text.find("        optimizer.step()"), 24,
               "        if total % 4 == 0:\n            optimizer.step()");
  write_text(folder_ / "summed.py", text);
  const std::string woven = telar("weave --target horovod summed.py").out;
  EXPECT_TRUE(says(woven, "optimizer.zero_grad()\n"));
  EXPECT_TRUE(says(woven, "backward_passes_per_step=4)"));
}

}  // namespace
}  // namespace telar::test
#endif
