#include "cli/weave_case.h"

#ifdef TELAR_WEAVE
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

const std::string kTrain =
    "        loss = nn.functional.mse_loss(model(x), y)\n"
    "        optimizer.zero_grad()\n        loss.backward()\n        optimizer.step()\n";

TEST_F(WeaveLoaders, HaveAnOtherOrderInEachEpochThoughNothingCountsThem) {
  const CommandResult kept = woven(
      "loader = DataLoader(a, batch_size=8, shuffle=True)\nloss = 9\n"
      "while loss > 1:\n    for x, y in loader:\n" +
      kTrain + "    loss = 0\n");
  EXPECT_EQ(kept.code, 0) << kept.err;
  EXPECT_TRUE(says(kept.out, "orders = itertools.count()\n"));
  EXPECT_TRUE(says(kept.out, "    loader.sampler.set_epoch(next(orders))\n    for x, y in loader:"));
  const CommandResult made =
      woven("for epoch in range(3):\n    for x, y in DataLoader(a, batch_size=8, shuffle=True):\n" + kTrain);
  EXPECT_EQ(made.code, 0) << made.err;
  EXPECT_TRUE(says(made.out, "sampler=DistributedSampler(a, seed=next(orders))"));
}

TEST_F(WeaveLoaders, TakeTheEpochFromAVariableThatTheFunctionSees) {
  const CommandResult result = woven(
      "def train():\n    loader = DataLoader(a, batch_size=8, shuffle=True)\n    for x, y in loader:\n" +
      kTrain + "for epoch in range(3):\n    train()\n");
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_TRUE(says(result.out, "    loader.sampler.set_epoch(epoch)\n    for x, y in loader:"));
}

TEST_F(WeaveLoaders, AreFollowedThroughKeywordsOfAnyName) {
  const CommandResult result = woven(
      "class Trainer:\n    def __init__(self, **parts):\n        self.model = parts['model'].to('cpu')\n"
      "        self.loader = parts['loader']\n"
      "    def run(self, optimizer):\n        model = self.model\n        for epoch in range(2):\n"
      "            for x, y in self.loader:\n                loss = nn.functional.mse_loss(model(x), y)\n"
      "                optimizer.zero_grad()\n                loss.backward()\n                optimizer.step()\n"
      "Trainer(model=model, loader=DataLoader(a, batch_size=8, shuffle=True)).run(optimizer)\n");
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_TRUE(says(result.out, "sampler=DistributedSampler(a)"));
  EXPECT_TRUE(says(result.out, "self.loader.sampler.set_epoch(epoch)"));
  EXPECT_TRUE(says(result.out, "model = DistributedDataParallel(model)"));
}

TEST_F(WeaveLoaders, GiveNumbersThatFunctionsOfAStepCollectAndThatAreJoined) {
  const std::string module =
      "class Lit(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.net = nn.Linear(4, 1)\n"
      "        self.logged = {}\n    def log(self, name, value):\n"
      "        self.logged.setdefault(name, []).append(float(value))\n"
      "    def training_step(self, batch):\n        x, y = batch\n"
      "        loss = nn.functional.mse_loss(self.net(x), y)\n        self.log('loss', loss)\n        return loss\n"
      "lit = Lit()\nsteps = torch.optim.SGD(lit.parameters(), lr=0.1)\n"
      "loader = DataLoader(a, batch_size=8)\nfor epoch in range(2):\n";
  const std::string loop =
      "    for batch in loader:\n        loss = lit.training_step(batch)\n        steps.zero_grad()\n"
      "        loss.backward()\n        steps.step()\n    print(sum(lit.logged['loss']))\n";
  const std::string head =
      "import torch\nfrom torch import nn\nfrom torch.utils.data import DataLoader, TensorDataset\n"
      "a = TensorDataset(torch.randn(64, 4), torch.randn(64, 1))\n";
  const CommandResult cleared = weave(head + module + "    lit.logged.clear()\n" + loop);
  EXPECT_EQ(cleared.code, 0) << cleared.err;
  EXPECT_TRUE(
      says(cleared.out,
           "    for key in sorted(set(gather_over_ranks(getattr(lit, \"module\", lit).logged)), key=str):\n"
           "        getattr(lit, \"module\", lit).logged[key] = "
           "gather_over_ranks(getattr(lit, \"module\", lit).logged.get(key, []))\n"));
  const CommandResult kept = weave(head + module + loop);
  EXPECT_EQ(kept.code, 3);
  EXPECT_TRUE(says(kept.err, "create or clear it before the loop"));
}

TEST_F(WeaveLoaders, GiveNumbersThatFunctionsOfAStepMixIn) {
  const auto module = [&](const std::string& start, const std::string& change) {
    return weave(
        "import torch\nfrom torch import nn\nfrom torch.utils.data import DataLoader, TensorDataset\n"
        "a = TensorDataset(torch.randn(64, 4), torch.randn(64, 1))\n"
        "class Lit(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.net = nn.Linear(4, 1)\n"
        "        self.total = 0.0\n    def training_step(self, batch):\n        x, y = batch\n"
        "        loss = nn.functional.mse_loss(self.net(x), y)\n        " +
        change +
        "\n        return loss\nlit = Lit()\nsteps = torch.optim.SGD(lit.parameters(), lr=0.1)\n"
        "loader = DataLoader(a, batch_size=8)\nfor epoch in range(2):\n    lit.total = " +
        start +
        "\n    for batch in loader:\n        loss = lit.training_step(batch)\n        steps.zero_grad()\n"
        "        loss.backward()\n        steps.step()\n    print(lit.total)\n");
  };
  const std::string total = "getattr(lit, \"module\", lit).total";
  const std::string summed = "    " + total + " = sum_over_ranks(" + total + ")";
  EXPECT_TRUE(says(module("0.0", "self.total += loss.item()").out, summed + "\n"));
  EXPECT_TRUE(says(module("0.0", "self.total = self.total + loss.item()").out, summed + "\n"));
  EXPECT_TRUE(says(module("0.0", "self.total = 0.9 * self.total + 0.1 * loss.item()").out,
                   summed + " / dist.get_world_size()\n"));
  EXPECT_TRUE(
      says(module("5.0", "self.total += loss.item()").err, "this sum begins with another number than 0"));
  EXPECT_TRUE(says(module("0.0", "self.total += self.total * loss.item()").err, "in a way that is no sum"));
  EXPECT_TRUE(
      says(module("0.0", "self.total = max(self.total, loss.item())").err, "in a way that is no sum"));
}

TEST_F(WeaveLoaders, GiveNumbersThatCanBeLeftIfTheyAreOnlyShown) {
  const auto script = [](const std::string& after) {
    return "import torch\nfrom torch import nn\nfrom torch.utils.data import DataLoader, TensorDataset\n"
           "a = TensorDataset(torch.randn(64, 4), torch.randn(64, 1))\nmodel = nn.Linear(4, 1)\n"
           "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
           "schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)\n"
           "class Meter:\n    def add(self, value):\n        self.most = max(getattr(self, 'most', 0), value)\n"
           "def train(meter):\n    for x, y in DataLoader(a, batch_size=8):\n"
           "        loss = nn.functional.mse_loss(model(x), y)\n        optimizer.zero_grad()\n"
           "        loss.backward()\n        optimizer.step()\n        meter.add(loss.item())\n"
           "    return meter.most\nfor epoch in range(2):\n    most = train(Meter())\n" +
           after;
  };
  const std::string shown = script("    print('most', most)\n");
  const CommandResult refused = weave(shown);
  EXPECT_EQ(refused.code, 3);
  EXPECT_TRUE(says(refused.err, "weave does not understand how to join them"));
  EXPECT_TRUE(says(refused.err, "or give --only-training"));
  const CommandResult left = weave(shown, "--only-training");
  EXPECT_EQ(left.code, 0) << left.err;
  EXPECT_TRUE(says(left.err, "left as it is: meter: the first process shows the numbers of its own batches"));
  EXPECT_TRUE(says(left.out, "DistributedSampler("));
  for (const std::string decision :
       {"    for group in optimizer.param_groups:\n        group['lr'] = most\n",
        "    optimizer.note(most)\n", "    schedule.factor = most\n", "    schedule.step(most)\n",
        "    if most < 1:\n        break\n",
        "    best = [most]\n    while best[-1] > 3:\n        train(Meter())\n"}) {
    const CommandResult decides = weave(script(decision), "--only-training");
    EXPECT_EQ(decides.code, 3) << decision << decides.out;
    EXPECT_TRUE(says(decides.err, "--only-training does not leave it, because line")) << decision;
  }
}

TEST_F(WeaveLoaders, GiveCountsFromWhichTheRateIsComputed) {
  const CommandResult result = woven(
      "loader = DataLoader(a, batch_size=8)\nseen = 0\nfor epoch in range(2):\n    for x, y in loader:\n" +
      kTrain +
      "        seen += x.size(0)\n        optimizer.param_groups[0]['lr'] = 0.1 / (1 + seen / 64)\nprint(seen)\n");
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_TRUE(says(result.out, "        seen += sum_over_ranks(x.size(0))\n"));
  EXPECT_EQ(result.out.find("seen = sum_over_ranks(seen)"), std::string::npos);
}

TEST_F(WeaveLoaders, AreMissedForTheTrueReason) {
  const CommandResult whole = woven(
      "x, y = a.tensors\nfor step in range(9):\n    loss = nn.functional.mse_loss(model(x), y, reduction='sum')\n"
      "    loss.backward()\n    optimizer.step()\n");
  EXPECT_EQ(whole.code, 3);
  EXPECT_TRUE(says(whole.err, "computes the gradient of all samples at once (full batch)")) << whole.err;
  const CommandResult unknown =
      woven("import feeder\nfor i in range(0, 64, 8):\n    if True:\n        x, y = feeder.next_batch(8)\n" +
            kTrain);
  EXPECT_EQ(unknown.code, 3);
  EXPECT_TRUE(says(unknown.err, "does not come from a loop over a torch.utils.data.DataLoader"));
  const CommandResult image = weave(
      "import torch\nimage = torch.rand(3)\nnet = torch.nn.Linear(3, 1)\noptimizer = torch.optim.LBFGS([image])\n"
      "for i in range(3):\n    loss = net(image).sum()\n    loss.backward()\n    optimizer.step()\n");
  EXPECT_EQ(image.code, 3);
  EXPECT_TRUE(says(image.err, "changes tensors, not the parameters of a torch.nn.Module"));
}

}  // namespace
}  // namespace telar::test
#endif
