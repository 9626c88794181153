#include "cli/weave_case.h"

#ifdef TELAR_CORPUS
namespace telar::test {
namespace {

/// Which loaders of a script train, and which objects are the wrapped model.
class WeaveLoaders : public WeaveCase {
 protected:
  /// A script that makes data sets a and b, a model and an optimizer, and goes on with `rest`.
  CommandResult woven(const std::string& rest) const {
    return weave(
        "import torch\nfrom torch import nn\nfrom torch.utils.data import DataLoader, TensorDataset\n"
        "a = TensorDataset(torch.randn(64, 4), torch.randn(64, 1))\n"
        "b = TensorDataset(torch.randn(64, 4), torch.randn(64, 1))\n"
        "model = nn.Linear(4, 1)\n"
        "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n" +
        rest);
  }
  static constexpr const char* kStep =
      "    loss = nn.functional.mse_loss(model(x), y)\n"
      "    if optimizer is not None:\n"
      "        optimizer.zero_grad()\n        loss.backward()\n        optimizer.step()\n";
};

TEST_F(WeaveLoaders, AreAllDividedThatOneLoopMayTrainOn) {
  const CommandResult result =
      woven(std::string("def step(x, y):\n") + kStep +
            "def train(loader):\n"
            "    for x, y in loader:\n        step(x, y)\n"
            "train(DataLoader(a, batch_size=8))\ntrain(DataLoader(b, batch_size=8))\n");
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_TRUE(says(result.out, "DataLoader(a, batch_size=8, sampler=DistributedSampler(a, shuffle=False))"));
  EXPECT_TRUE(says(result.out, "DataLoader(b, batch_size=8, sampler=DistributedSampler(b, shuffle=False))"));
}

TEST_F(WeaveLoaders, DoNotTrainWithoutTheOptimizerThatTheStepAsksFor) {
  const CommandResult result =
      woven(std::string("def step(x, y, optimizer=None):\n") + kStep +
            "first = DataLoader(a, batch_size=8)\nlast = DataLoader(b, batch_size=8)\n"
            "for x, y in first:\n    step(x, y, optimizer)\n"
            "for x, y in last:\n    step(x, y)\n");
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_TRUE(says(result.out, "first = DataLoader(a, batch_size=8, sampler="));
  EXPECT_TRUE(says(result.out, "last = DataLoader(b, batch_size=8)\n"));
}

TEST_F(WeaveLoaders, TrainIfTheArgumentsOfTheStepAreUnknown) {
  const CommandResult result = woven(std::string("def step(x, y, optimizer=None):\n") + kStep +
                                     "def fit(loader, *rest):\n"
                                     "    for x, y in loader:\n        step(x, y, *rest)\n"
                                     "first = DataLoader(a, batch_size=8)\n"
                                     "fit(first, optimizer)\n");
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_TRUE(says(result.out, "first = DataLoader(a, batch_size=8, sampler="));
}

TEST_F(WeaveLoaders, AFunctionForBothModelsTakesOnlyTheWrapperAway) {
  const CommandResult result = woven(
      "def save(net, path):\n    torch.save(net.state_dict(), path)\n"
      "averaged = torch.optim.swa_utils.AveragedModel(model)\n"
      "loader = DataLoader(a, batch_size=8)\n"
      "for x, y in loader:\n"
      "    loss = nn.functional.mse_loss(model(x), y)\n"
      "    optimizer.zero_grad()\n    loss.backward()\n    optimizer.step()\n"
      "save(model, 'model.pt')\nsave(averaged, 'averaged.pt')\n");
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_TRUE(
      says(result.out, "(net.module if isinstance(net, DistributedDataParallel) else net).state_dict()"));
}

}  // namespace
}  // namespace telar::test
#endif
