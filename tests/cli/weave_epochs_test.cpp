#include "cli/weave_case.h"
#include "support/paths.h"

#ifdef TELAR_WEAVE
namespace telar::test {
namespace {

/// Weaves PyTorch scripts of a few lines with --epochs divide and --warmup.
class WeaveEpochs : public WeaveCase {
 protected:
  /// A training script. `epochs`: the head of the epoch loop; `loader`: the arguments of the DataLoader;
  /// `before`: the lines before the loop; `end`: the last line of each epoch.
  static std::string script(const std::string& epochs, const std::string& loader = "shuffle=True",
                            const std::string& before = "", const std::string& end = "pass") {
    return "import torch\nfrom torch.utils.data import DataLoader, TensorDataset\n"
           "data = TensorDataset(torch.rand(8, 1))\nloader = DataLoader(data, " +
           loader +
           ")\nmodel = torch.nn.Linear(1, 1)\noptimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n" +
           before + epochs +
           ":\n    total = 0.0\n    for (x,) in loader:\n        optimizer.zero_grad()\n"
           "        loss = model(x).sum()\n        loss.backward()\n        optimizer.step()\n"
           "        total += loss.item()\n    print(total)\n    " +
           end + "\n";
  }

  /// The message with which weave refuses the script.
  std::string refusal(const std::string& text, const std::string& options) const {
    const CommandResult result = weave(text, options);
    EXPECT_EQ(result.code, 3) << result.out;
    return result.err;
  }
};

const std::string kFour = "for epoch in range(4)";

TEST_F(WeaveEpochs, DividesTheEpochsAndKeepsAllSamples) {
  const std::string woven = weave(script(kFour), "--epochs divide").out;
  for (const char* part : {"for epoch in range(math.ceil(4 / dist.get_world_size())):",
                           "loader = DataLoader(data, shuffle=True)\n", "lr=0.1 * dist.get_world_size()",
                           "torch.manual_seed(torch.initial_seed() + dist.get_rank())",
                           "total = sum_over_ranks(total) / dist.get_world_size()"}) {
    EXPECT_TRUE(says(woven, part));
  }
  EXPECT_EQ(woven.find("DistributedSampler"), std::string::npos);
  EXPECT_EQ(woven.find("set_epoch"), std::string::npos);
  EXPECT_TRUE(says(weave(script(kFour), "--epochs divide --target horovod").out,
                   "for epoch in range(math.ceil(4 / hvd.size())):"));
  EXPECT_TRUE(says(weave(script(kFour), "--epochs divide --explain").out,
                   "train.py:7: epochs ÷ number of processes: each process sees all samples"));
}

TEST_F(WeaveEpochs, DividesEpochsFromVariablesAndTheCommandLine) {
  const std::string variable = "EPOCHS = 9\n";
  EXPECT_TRUE(
      says(weave(script("for epoch in range(EPOCHS)", "shuffle=True", variable), "--epochs divide").out,
           "range(math.ceil(EPOCHS / dist.get_world_size()))"));
  const std::string parsed =
      "import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument('--epochs', type=int)\n"
      "args = parser.parse_args()\n";
  EXPECT_TRUE(says(
      weave(script("for epoch in range(1, args.epochs + 1)", "shuffle=True", parsed), "--epochs divide").out,
      "range(1, math.ceil(args.epochs / dist.get_world_size()) + 1)"));
  EXPECT_TRUE(says(weave(script("for epoch in range(2, 9)"), "--epochs divide").out,
                   "range(2, 2 + math.ceil((9 - 2) / dist.get_world_size()))"));
}

TEST_F(WeaveEpochs, RefusesEpochsThatCannotBeDivided) {
  const auto says_when = [&](const std::string& text, const char* sentence) {
    EXPECT_TRUE(says(refusal(text, "--epochs divide"), sentence));
  };
  says_when(script("if True"), "no loop `for epoch in range(…)` is found");
  says_when(script("for epoch in range(1)"), "it is one epoch");
  says_when(script("for epoch in range(start, 9)", "shuffle=True", "start = 3\n"),
            "the number of remaining epochs");
  says_when(script(kFour, "shuffle=False"), "it does not shuffle");
  says_when(script(kFour, "shuffle=True, generator=torch.Generator().manual_seed(0)"),
            "remove its generator");
  says_when(script(kFour, "shuffle=True", "", "if epoch == 3: torch.save(model, 'last.pt')"),
            "train.py:16: epoch == 3: it depends on the script's number of epochs");
  says_when(script(kFour, "shuffle=True", "schedule = torch.optim.lr_scheduler.StepLR(optimizer, 2)\n",
                   "schedule.step()"),
            "it depends on the script's number of epochs");
  says_when(script(kFour, "shuffle=True", "", "torch.manual_seed(epoch)"), "the same order of samples");
}

TEST_F(WeaveEpochs, WarmsUpAlongsideTheScriptsSchedule) {
  const std::string schedule = "schedule = torch.optim.lr_scheduler.StepLR(optimizer, 2)\n";
  const std::string woven =
      weave(script(kFour, "shuffle=True", schedule, "schedule.step()"), "--warmup 3").out;
  for (
      const char* part :
      {"warmup = torch.optim.lr_scheduler.LinearLR(optimizer, start_factor=1 / dist.get_world_size(), total_iters=3)\nfor epoch",
       "    schedule.step()\n    warmup.step()\n", "lr=0.1 * dist.get_world_size()"}) {
    EXPECT_TRUE(says(woven, part));
  }
  EXPECT_TRUE(says(weave(script(kFour), "--warmup 3 --target horovod").out,
                   "LinearLR(optimizer, start_factor=1 / hvd.size(), total_iters=3)"));
  EXPECT_TRUE(
      says(weave(script(kFour), "--warmup 3 --explain").out, "train.py:7: the learning rate warms up"));
}

TEST_F(WeaveEpochs, RefusesAnAmbiguousWarmUp) {
  const auto says_when = [&](const std::string& text, const char* sentence) {
    EXPECT_TRUE(says(refusal(text, "--warmup 3"), sentence));
  };
  const std::string made = "schedule = torch.optim.lr_scheduler.";
  says_when(script(kFour, "shuffle=True", made + "ReduceLROnPlateau(optimizer)\n", "schedule.step(total)"),
            "ReduceLROnPlateau and a warm-up would both set the learning rate");
  says_when(
      script(kFour, "shuffle=True", made + "OneCycleLR(optimizer, 1, 4 * len(loader))\n", "schedule.step()"),
      "OneCycleLR and a warm-up");
  std::string batches = script(kFour, "shuffle=True", made + "StepLR(optimizer, 4 * len(loader))\n");
  batches.insert(batches.find("        total +="), "        schedule.step()\n");
  says_when(batches, "StepLR is stepped with every batch");
  says_when(script(kFour, "shuffle=True", "", "optimizer.param_groups[0]['lr'] = 0.1 / (epoch + 1)"),
            "would both set the learning rate");
  says_when(script(kFour, "shuffle=True", "optimizer.load_state_dict(torch.load('a.pt'))\n"),
            "a second time");
  says_when(script("if True"), "no loop that counts epochs");
  says_when(script(kFour, "shuffle=True", "", "if epoch: continue"), "an epoch that ends here");
}

TEST_F(WeaveEpochs, AreForHorovodAndDdpOnly) {
  for (const char* option : {"--epochs divide", "--warmup 2"}) {
    const CommandResult kept = weave(script(kFour), std::string(option) + " --global-batch keep");
    EXPECT_EQ(kept.code, 2);
    EXPECT_TRUE(says(kept.err, "--target ddp or horovod with --global-batch grow"));
    const CommandResult keras = weave(
        "import tensorflow as tf\nmodel = tf.keras.Sequential()\nmodel.compile('sgd', 'mse')\nmodel.fit([1], [1])\n",
        std::string(option) + " --target tf-distribute");
    EXPECT_EQ(keras.code, 2);
    EXPECT_TRUE(says(keras.err, "is for --target horovod with --global-batch grow"));
  }
}

TEST_F(WeaveEpochs, ReportsWhereATrainingIsPassedOn) {
  const std::string made =
      "import functools\nimport tensorflow as tf\nmodel = tf.keras.Sequential()\nmodel.compile('sgd', 'mse')\n";
  const std::string partial =
      refusal(made + "train = functools.partial(model.fit, epochs=2)\ntrain([1], [1])\n", "");
  EXPECT_TRUE(says(partial,
                   "train.py:5: functools.partial(model.fit, epochs=2): model.fit trains, but is passed on"));
  EXPECT_TRUE(
      says(refusal(made + "model.fit([1], [1])\ntrain = model.fit\ntrain([1], [1])\n", ""), "train.py:6: "));
}

TEST_F(WeaveEpochs, AreNotDividedWithoutALoader) {
  const std::string script = read_text(std::filesystem::path(weave_corpus()) / "full_batch.py");
  for (const char* option : {"--epochs divide", "--warmup 2"}) {
    const CommandResult result = weave(script, option);
    EXPECT_EQ(result.code, 3) << option;
    EXPECT_TRUE(says(result.err, "does not come from a torch.utils.data.DataLoader")) << result.err;
  }
}

TEST_F(WeaveEpochs, OfAFunctionWithoutALoaderTakeItsParameters) {
  const std::string script = R"(import torch
from torch import nn, optim


def fit(model, optimizer, x, y):
    for epoch in range(3):
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


torch.manual_seed(1)
net = nn.Linear(2, 1)
fit(net, optim.SGD(net.parameters(), lr=0.1), torch.rand(9, 2), torch.rand(9, 1))
)";
  const CommandResult result = weave(script);
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_TRUE(says(result.out, "    own_x = own_part(x, x.size(0))")) << result.out;
  EXPECT_TRUE(says(result.out, "lr=0.1)")) << "the learning rate stays";
}

}  // namespace
}  // namespace telar::test
#endif
