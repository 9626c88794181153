#include "cli/weave_case.h"

#ifdef TELAR_WEAVE
namespace telar::test {
namespace {

/// Weaves PyTorch scripts of a few lines with --evaluation shared.
class WeaveEvaluation : public WeaveCase {
 protected:
  struct Parts {
    std::string loader = "DataLoader(data, batch_size=4)";
    std::string eval = "model.eval()";
    std::string start = "right, seen = 0, 0";
    std::string body = "right += (model(x) > 0).sum().item()";
    std::string call = "    score = test()";
  };

  CommandResult shared(const Parts& parts) const {
    return weave(
        "import torch\nfrom torch.utils.data import DataLoader, TensorDataset\n"
        "data = TensorDataset(torch.zeros(8, 1))\ntrain_loader = DataLoader(data, batch_size=2)\n"
        "test_loader = " +
            parts.loader +
            "\nmodel = torch.nn.Linear(1, 1)\n"
            "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n\n\ndef test():\n    " +
            parts.eval + "\n    " + parts.start + "\n    for (x,) in test_loader:\n        " + parts.body +
            "\n        seen += len(x)\n    return right / seen\n\n\nfor epoch in range(2):\n"
            "    for (x,) in train_loader:\n        optimizer.zero_grad()\n        model(x).sum().backward()\n"
            "        optimizer.step()\n" +
            parts.call + "\n    print(score)\n",
        "--evaluation shared");
  }

  void expect_refused(const Parts& parts, const std::string& why) const {
    const CommandResult refused = shared(parts);
    EXPECT_EQ(refused.code, 3) << refused.out;
    EXPECT_TRUE(says(refused.err, why)) << refused.err;
    EXPECT_TRUE(says(refused.err, "or weave without --evaluation shared")) << refused.err;
  }
};

TEST_F(WeaveEvaluation, GivesEachProcessEveryNthBatchAndSumsTheResults) {
  const CommandResult woven = shared({});
  EXPECT_EQ(woven.code, 0) << woven.err;
  EXPECT_TRUE(
      says(woven.out,
           "    for (x,) in itertools.islice(test_loader, dist.get_rank(), None, dist.get_world_size()):\n"
           "        right += (model.module(x) > 0).sum().item()\n        seen += len(x)\n"
           "    right = total_over_ranks(right)\n    seen = total_over_ranks(seen)\n"))
      << woven.out;
}

TEST_F(WeaveEvaluation, NeedsTheSameBatchesInAllProcesses) {
  Parts parts;
  parts.loader = "DataLoader(data, batch_size=4, shuffle=True)";
  expect_refused(parts, "each process would take different batches");
  parts.loader = "DataLoader(data, batch_size=4, sampler=torch.utils.data.RandomSampler(data))";
  expect_refused(parts, "each process would take different batches");
}

TEST_F(WeaveEvaluation, AllowsOnlySumsToLeaveTheLoop) {
  Parts parts;
  for (const char* const body :
       {"print(x)", "seen = max(seen, len(x))", "model.bias.data[0] = 1", "right -= 1",
        "right = right * 2 + x.sum()", "if seen < 3: right += 1", "right += record(x)"}) {
    parts.body = body;
    EXPECT_EQ(shared(parts).code, 3) << body;
  }
  parts = {};
  parts.start = "right, seen, last = 0, 0, None";
  parts.body = "right += 0 if last is None else (model(x) > last).sum().item()\n        last = x.mean()";
  expect_refused(parts, "a batch may see here what another one left");
  parts = {};
  parts.start = "right, seen = 0, 1";
  expect_refused(parts, "set the sum to zero before the loop");
  parts.start = "right, seen = 0, 0\n    seen += 1";
  expect_refused(parts, "set the sum to zero before the loop");
  parts = {};
  parts.eval = "pass";
  expect_refused(parts, "call the model's eval() before it");
}

TEST_F(WeaveEvaluation, MustBeReachedByAllProcesses) {
  Parts parts;
  parts.call = "    if epoch == 1:\n        score = test()";
  EXPECT_EQ(shared(parts).code, 0);
  parts.call = "    if model.bias.item() > 0:\n        score = test()";
  expect_refused(parts, "whether all processes reach this together");
  parts.call = "        score = test()";
  expect_refused(parts, "whether all processes reach this together");
  parts.call = "    score = [test for _ in range(2)][0]()";
  expect_refused(parts, "where it is called from cannot be determined");
}

TEST_F(WeaveEvaluation, SupportsPyTorchOnly) {
  const CommandResult wrong = weave(
      "import keras\nmodel = keras.Sequential([keras.layers.Dense(1)])\nmodel.compile(optimizer=\"sgd\", loss=\"mse\")\nmodel.fit([1.0], [1.0])\n",
      "--evaluation shared");
  EXPECT_EQ(wrong.code, 2);
  EXPECT_TRUE(says(wrong.err, "is for PyTorch's loops"));
}

}  // namespace
}  // namespace telar::test
#endif
