// One process per host downloads a data set before any other opens it.
#include "cli/weave_case.h"

#ifdef TELAR_WEAVE
namespace telar::test {
namespace {

class WeaveDownload : public WeaveCase {
 protected:
  /// A script with statements that create `loader`.
  CommandResult script(const std::string& data) const {
    return weave(
        "import os\nimport torch\nfrom torch import nn, optim\nfrom torch.utils.data import DataLoader\n"
        "from torchvision import datasets\n" +
        data +
        "model = nn.Linear(4, 4)\noptimizer = optim.SGD(model.parameters(), lr=0.1)\n"
        "for epoch in range(2):\n    for a, b in loader:\n        optimizer.zero_grad()\n"
        "        ((model(a) - b) ** 2).mean().backward()\n        optimizer.step()\n");
  }
  static constexpr const char* kOthersWait = "if int(os.environ[\"LOCAL_RANK\"]) != 0:\n    dist.barrier()\n";
  static constexpr const char* kFirstIsDone =
      "if int(os.environ[\"LOCAL_RANK\"]) == 0:\n    dist.barrier()\n";
};

TEST_F(WeaveDownload, InTheLoadersStatementIsGuarded) {
  const std::string out =
      script("loader = DataLoader(datasets.MNIST('d', download=True), batch_size=2, shuffle=True)\n").out;
  EXPECT_TRUE(says(out, std::string(kOthersWait) + "train_dataset = datasets.MNIST('d', download=True)\n"))
      << out;
}

TEST_F(WeaveDownload, ByAVariableOrAPositionIsGuarded) {
  for (const std::string made : {"datasets.MNIST('d', download=not os.path.exists('d'))",
                                 "datasets.CIFAR10('d', True, None, None, True)",
                                 "datasets.EMNIST('d', split='digits', download=len(os.listdir('.')) < 3)"}) {
    const std::string out = script("data = " + made + "\nloader = DataLoader(data, shuffle=True)\n").out;
    EXPECT_TRUE(says(out, kOthersWait + ("data = " + made + "\n") + kFirstIsDone)) << out;
  }
  for (const char* made : {"datasets.MNIST('d', download=False)", "datasets.MNIST('d', True)"}) {
    const std::string out =
        script(std::string("data = ") + made + "\nloader = DataLoader(data, shuffle=True)\n").out;
    EXPECT_FALSE(says(out, "LOCAL_RANK")) << out;
  }
}

TEST_F(WeaveDownload, InAReturnIsGuarded) {
  const CommandResult woven = script(
      "def load(fetch):\n    return datasets.MNIST('d', download=fetch), datasets.MNIST('e', download=fetch)\n\n\n"
      "train, test = load(True)\nloader = DataLoader(train, shuffle=True)\n");
  EXPECT_TRUE(
      says(woven.out,
           "    downloaded = datasets.MNIST('d', download=fetch), datasets.MNIST('e', download=fetch)\n"
           "    if int(os.environ[\"LOCAL_RANK\"]) == 0:\n        dist.barrier()\n"
           "    return downloaded\n"))
      << woven.err << woven.out;
}

}  // namespace
}  // namespace telar::test
#endif
