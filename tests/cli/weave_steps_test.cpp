// Steps whose gradients or running statistics the wrappers do not join by themselves. The corpus runs
// backward_twice.py, loss_parts.py and batchnorm_twice.py.
#include "cli/weave_case.h"

#ifdef TELAR_WEAVE
namespace telar::test {
namespace {

class WeaveSteps : public WeaveCase {
 protected:
  /// A script that trains by `step`, in a loop over batches `a`, with the lines `after` after each epoch.
  CommandResult script(const std::string& step, const std::string& after = "") const {
    return weave(text(step, after));
  }

  static std::string text(const std::string& step, const std::string& after) {
    return "import torch\nfrom torch import nn, optim\n"
           "from torch.utils.data import DataLoader, TensorDataset\n"
           "loader = DataLoader(TensorDataset(torch.randn(8, 4)), batch_size=2, shuffle=True)\n"
           "net = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))\n"
           "optimizer = optim.SGD(net.parameters(), lr=0.1)\n" +
           std::string(step.find("other") == std::string::npos
                           ? ""
                           : "other = nn.Linear(4, 4)\nsecond = optim.SGD(other.parameters(), lr=0.1)\n") +
           "for epoch in range(2):\n    for (a,) in loader:\n" + step + after;
  }
};

const std::string average = "average_gradients(optimizer)\n";

TEST_F(WeaveSteps, AverageWhatASecondBackwardPassAdds) {
  const CommandResult woven = script(
      "        optimizer.zero_grad()\n        y = net(a)\n        y.mean().backward(retain_graph=True)\n"
      "        y.pow(2).mean().backward()\n        optimizer.step()\n");
  EXPECT_TRUE(says(woven.out, "y.pow(2).mean().backward()\n        " + average)) << woven.out << woven.err;
}

TEST_F(WeaveSteps, AreLeftAsTheyAreIfEachBackwardPassFollowsAForwardPass) {
  for (const std::string between : {"        y = net(a)\n", "        optimizer.zero_grad()\n"}) {
    const bool forward = between.find("net") != std::string::npos;
    const CommandResult woven =
        script("        optimizer.zero_grad()\n        y = net(a)\n        y.mean().backward()\n" +
               std::string(forward ? "" : "        optimizer.step()\n") + between +
               (forward ? "" : "        y = net(a)\n") +
               "        y.pow(2).mean().backward()\n        optimizer.step()\n");
    EXPECT_EQ(woven.code, 0) << woven.err;
    EXPECT_FALSE(says(woven.out, "average_gradients")) << woven.out;
  }
}

TEST_F(WeaveSteps, OfADetachedLossConcernOneModel) {
  const CommandResult woven = script(
      "        fake = net(a)\n        second.zero_grad()\n        other(fake.detach()).mean().backward()\n"
      "        second.step()\n        optimizer.zero_grad()\n        other(fake).mean().backward()\n"
      "        optimizer.step()\n");
  EXPECT_EQ(woven.code, 0) << woven.err;
  EXPECT_FALSE(says(woven.out, "average_gradients")) << woven.out;
}

TEST_F(WeaveSteps, OfSeveralOptimizersAreAveragedForHorovodBeforeTheyAreClipped) {
  write_text(folder_ / "several.py", text("        optimizer.zero_grad()\n        second.zero_grad()\n"
                                          "        other(net(a)).mean().backward()\n"
                                          "        nn.utils.clip_grad_norm_(net.parameters(), 1.0)\n"
                                          "        optimizer.step()\n        second.step()\n",
                                          ""));
  const std::string woven = telar("weave --target horovod several.py").out;
  EXPECT_TRUE(says(woven, average + "        nn.utils.clip_grad_norm_")) << woven;
  EXPECT_TRUE(says(woven, "average_gradients(second)\n        second.step()")) << woven;
  EXPECT_FALSE(says(woven, "DistributedOptimizer")) << woven;
}

TEST_F(WeaveSteps, DoNotWaitInTheWorkersOfALoader) {
  const CommandResult woven = weave(
      "import torch\nfrom torch import nn, optim\nfrom torch.utils.data import DataLoader, Dataset\n"
      "def load(path):\n    return torch.load(path)\n"
      "class Files(Dataset):\n    def __len__(self):\n        return 8\n"
      "    def __getitem__(self, i):\n        return load(f'{i}.pt')\n"
      "loader = DataLoader(Files(), batch_size=2, shuffle=True, num_workers=2)\n"
      "net = nn.Linear(4, 4)\noptimizer = optim.SGD(net.parameters(), lr=0.1)\n"
      "for epoch in range(2):\n    for a in loader:\n        optimizer.zero_grad()\n"
      "        net(a).mean().backward()\n        optimizer.step()\n"
      "torch.save(net.state_dict(), 'net.pt')\n");
  EXPECT_TRUE(says(woven.out, "def load(path):\n    return torch.load(path)\n")) << woven.out << woven.err;
}

TEST_F(WeaveSteps, LeaveAllProcessesTheSameStatisticsForAnEvaluation) {
  const std::string step =
      "        optimizer.zero_grad()\n        (net(a) - net(a + 1)).pow(2).mean().backward()\n"
      "        optimizer.step()\n";
  const std::string evaluation =
      "    net.eval()\n    with torch.no_grad():\n        print(net(torch.ones(2, 4)))\n";
  const std::string broadcast = "    for buffer in net.buffers():\n        dist.broadcast(buffer, 0)\n";
  EXPECT_TRUE(says(script(step, evaluation).out, broadcast + "    net.eval()"));
  const CommandResult woven = script(step);
  EXPECT_EQ(woven.code, 0) << woven.err;
  EXPECT_FALSE(says(woven.out, "buffer in"));
}

}  // namespace
}  // namespace telar::test
#endif
