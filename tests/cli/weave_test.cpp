#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/weave_case.h"

#ifdef TELAR_WEAVE
namespace telar::test {
namespace {

class Weave : public WeaveCase {
 protected:
  void SetUp() override { write_text(folder_ / "train.py", script_); }
};

TEST_F(Weave, WritesTheParallelScriptAndKeepsTheInput) {
  EXPECT_EQ(telar("weave train.py -o out.py").code, 0);
  EXPECT_EQ(read_text(folder_ / "train.py"), script_);
  const std::string woven = read_text(folder_ / "out.py");
  EXPECT_TRUE(says(woven, "model = DistributedDataParallel(model)"));
  EXPECT_TRUE(says(woven, "# Two noisy blobs."));
  EXPECT_EQ(telar("weave train.py -o train.py").code, 2);
  EXPECT_EQ(telar("weave --in-place train.py").code, 0);
  EXPECT_EQ(read_text(folder_ / "train.py"), woven);
}

TEST_F(Weave, DoesNotChangeAParallelScript) {
  EXPECT_EQ(telar("weave train.py -o out.py").code, 0);
  const CommandResult again = telar("weave out.py");
  EXPECT_EQ(again.code, 0);
  EXPECT_EQ(again.out, read_text(folder_ / "out.py"));
  EXPECT_TRUE(says(again.err, "already parallel"));
  for (const char* start : {"import torch.multiprocessing as mp\nmp.spawn(print)\n",
                            "from torch.multiprocessing import Process\nProcess(target=print).start()\n"})
    EXPECT_TRUE(says(weave(start + script_).err, "already parallel")) << start;
  EXPECT_TRUE(says(weave("import torch.multiprocessing as mp\n" + script_).out, "DistributedDataParallel"));
}

TEST_F(Weave, EndsTheProcessGroupBeforeTheScriptExits) {
  const auto end_of = [this](const std::string& statement) {
    write_text(folder_ / "ends.py", "import sys\n" + script_ + statement + "\n");
    const CommandResult woven = telar("weave ends.py");
    EXPECT_EQ(woven.code, 0) << woven.err;
    const std::string saved = "print(\"saved\")\n";
    return woven.out.substr(woven.out.find(saved) + saved.size());
  };
  const std::string parting = "dist.barrier()\ndist.destroy_process_group()\n";
  EXPECT_EQ(end_of("sys.exit(int(input()))  # done"),
            "status = int(input())  # done\n" + parting + "sys.exit(status)\n");
  EXPECT_EQ(end_of("raise SystemExit(int(input()))"),
            "status = int(input())\n" + parting + "raise SystemExit(status)\n");
  EXPECT_EQ(end_of("sys.exit(0)"), parting + "sys.exit(0)\n");
  EXPECT_EQ(end_of("raise SystemExit"), parting + "raise SystemExit\n");
  EXPECT_EQ(end_of("int(0)"), "int(0)\n" + parting);
}

TEST_F(Weave, KeepsLineEndsByteOrderMarksAndEncodings) {
  std::string windows;
  for (const char c : script_) windows += c == '\n' ? std::string("\r\n") : std::string(1, c);
  write_text(folder_ / "windows.py", "\xef\xbb\xbf" + windows);
  const std::string woven = telar("weave windows.py").out;
  EXPECT_TRUE(woven.starts_with("\xef\xbb\xbf"));
  EXPECT_EQ(std::count(woven.begin(), woven.end(), '\n'), std::count(woven.begin(), woven.end(), '\r'));
  write_text(folder_ / "latin.py", "# -*- coding: latin-1 -*-\n# ni\xf1o\n" + script_);
  EXPECT_TRUE(says(telar("weave latin.py").out, "# ni\xf1o\n"));
}

TEST_F(Weave, AcceptsTheUPrefixOfAString) {
  const CommandResult woven =
      weave(script_ + "with open(\"log.txt\", u\"w\") as log:\n    log.write(\"done\")\n");
  EXPECT_TRUE(says(woven.out, "open(\"log.txt\" if dist.get_rank() == 0 else os.devnull, u\"w\")"))
      << woven.out;
}

TEST_F(Weave, RefusesToDivideAListOfAllProcessesByTheBatchesOfOne) {
  const auto script = [](const std::string& mean) {
    return "import torch\nfrom torch.utils.data import DataLoader, TensorDataset\n"
           "loader = DataLoader(TensorDataset(torch.rand(8, 1)))\nmodel = torch.nn.Linear(1, 1)\n"
           "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\nlosses = []\nfor (x,) in loader:\n"
           "    optimizer.zero_grad()\n    loss = model(x).sum()\n    loss.backward()\n    optimizer.step()\n"
           "    losses.append(loss.item())\nprint(" +
           mean + ")\n";
  };
  const CommandResult wrong = weave(script("sum(losses) / len(loader)"));
  EXPECT_EQ(wrong.code, 3);
  EXPECT_TRUE(says(wrong.err, "train.py:12: "));
  EXPECT_TRUE(says(wrong.err, "divide by the length of the list"));
  EXPECT_TRUE(says(weave(script("sum(losses) / len(losses)")).out, "losses = gather_over_ranks(losses)\n"));
}

TEST_F(Weave, RefusesUnknownConstructsWithTheirLine) {
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
  EXPECT_TRUE(says(telar("weave leaves.py").err, "forever"));
}

TEST_F(Weave, ReportsBadInput) {
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

TEST_F(Weave, UsesNcclOnlyIfTheScriptUsesAGpu) {
  EXPECT_TRUE(says(telar("weave train.py").out, "\"nccl\" if torch.cuda.is_available()"));
  std::string processor = script_;
  processor.replace(processor.find("torch.device("),
                    processor.find('\n', processor.find("torch.device(")) - processor.find("torch.device("),
                    "torch.device(\"cpu\")");
  write_text(folder_ / "processor.py", processor);
  EXPECT_TRUE(says(telar("weave processor.py").out, "dist.init_process_group(\"gloo\")"));
}

TEST_F(Weave, PassesHorovodTheOptimizerArgumentsThatItAccepts) {
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
