// Where the random numbers of the processes part. The corpus runs seed_*.py.
#include "cli/weave_case.h"
#include "support/paths.h"

#ifdef TELAR_WEAVE
namespace telar::test {
namespace {

class WeaveSeeds : public WeaveCase {
 protected:
  /// A script with statements before its training, at the start of each epoch and in each step.
  CommandResult script(const std::string& before, const std::string& epoch, const std::string& step) const {
    return weave(
        "import random\nimport numpy as np\nimport torch\nfrom torch import nn, optim\n"
        "from torch.utils.data import DataLoader, TensorDataset\n" +
        before +
        "x = torch.zeros(8, 4)\nloader = DataLoader(TensorDataset(x, x), batch_size=2, shuffle=True)\n"
        "model = nn.Linear(4, 4)\noptimizer = optim.SGD(model.parameters(), lr=0.1)\n"
        "for epoch in range(2):\n" +
        epoch + "    for a, b in loader:\n" + step +
        "        optimizer.zero_grad()\n        ((model(a) - b) ** 2).mean().backward()\n"
        "        optimizer.step()\n");
  }
  static constexpr const char* kTorch = "torch.manual_seed(torch.initial_seed() + dist.get_rank())\n";
};

TEST_F(WeaveSeeds, PartBeforeTheTraining) {
  const std::string out = script("torch.manual_seed(1)\n", "", "").out;
  EXPECT_TRUE(says(out, std::string(kTorch) + "for epoch in")) << out;
}

TEST_F(WeaveSeeds, PartInEachEpochThatSeedsAgain) {
  const std::string out = script("", "    torch.manual_seed(epoch)\n", "").out;
  EXPECT_TRUE(
      says(out, std::string("    torch.manual_seed(epoch)\n    loader.sampler.set_epoch(epoch)\n    ") +
                    kTorch + "    for a, b"))
      << out;
  EXPECT_TRUE(says(script("def again(n):\n    torch.manual_seed(n)\n\n\n", "    again(epoch)\n", "").out,
                   std::string("    ") + kTorch));
}

TEST_F(WeaveSeeds, OfOneGeneratorPartByItself) {
  EXPECT_TRUE(says(script("np.random.seed(1)\n", "", "").out,
                   "np.random.seed(np.random.randint(2**31) + dist.get_rank())\nfor epoch"));
  EXPECT_TRUE(says(script("random.seed(1)\n", "", "").out,
                   "random.seed(random.getrandbits(31) + dist.get_rank())\nfor epoch"));
}

TEST_F(WeaveSeeds, InEachStepAreRefused) {
  const CommandResult direct = script("", "", "        torch.manual_seed(1)\n");
  EXPECT_EQ(direct.code, 3);
  EXPECT_TRUE(says(direct.err, "the same random numbers in each step")) << direct.err;
  EXPECT_EQ(script("def again(n):\n    random.seed(n)\n\n\n", "", "        again(1)\n").code, 3);
}

TEST_F(WeaveSeeds, OfWorkersDiffer) {
  std::string workers = read_text(std::filesystem::path(weave_corpus()) / "seed_workers.py");
  EXPECT_TRUE(says(weave(workers).out, "np.random.seed(100 + number + 1000 * dist.get_rank())\n"));
  const std::string seed = "100 + number";
  workers.replace(workers.find(seed), seed.size(), "torch.initial_seed() % 2**32");
  EXPECT_TRUE(says(weave(workers).out, "np.random.seed(torch.initial_seed() % 2**32)\n\n"));
}

}  // namespace
}  // namespace telar::test
#endif
