// Where a model is wrapped whose references were made before, or which is moved to its device afterwards. The
// corpus runs references_in_containers.py, references_kept.py and late_device.py.
#include "cli/weave_case.h"

#ifdef TELAR_WEAVE
namespace telar::test {
namespace {

class WeaveReferences : public WeaveCase {
 protected:
  /// A script with statements before the optimizer and after it, which applies the model by `applied`.
  CommandResult script(const std::string& before, const std::string& after,
                       const std::string& applied) const {
    return weave(
        "import functools\nimport torch\nfrom torch import nn, optim\n"
        "from torch.utils.data import DataLoader, TensorDataset\n"
        "x = torch.randn(8, 4)\n"
        "loader = DataLoader(TensorDataset(x, x), batch_size=2, shuffle=True)\n"
        "model = nn.Linear(4, 4)\n" +
        before + "optimizer = optim.SGD(model.parameters(), lr=0.1)\n" + after +
        "for epoch in range(2):\n    for a, b in loader:\n        optimizer.zero_grad()\n"
        "        ((" +
        applied + "(a) - b) ** 2).mean().backward()\n        optimizer.step()\n");
  }
};

TEST_F(WeaveReferences, AreMadeToTheWrappedModel) {
  const std::string wrapping = "model = DistributedDataParallel(model)\n";
  for (const auto& [before, applied] : {std::pair<std::string, std::string>{"nets = [model]\n", "nets[0]"},
                                        {"nets = {'a': model}\n", "nets['a']"},
                                        {"other = model\n", "other"},
                                        {"first, second = model, 3\n", "first"}}) {
    const CommandResult woven = script(before, "", applied);
    EXPECT_TRUE(says(woven.out, wrapping + before)) << before << woven.err;
  }
}

TEST_F(WeaveReferences, ThatCannotBeFollowedAreRefused) {
  for (const auto& [before, applied] :
       {std::pair<std::string, std::string>{"nets = []\nnets.append(model)\n", "nets[-1]"},
        {"apply = functools.partial(lambda net, a: net(a), model)\n", "apply"},
        {"nets = sorted([model], key=id)\n", "nets[0]"}}) {
    const CommandResult woven = script(before, "", applied);
    EXPECT_EQ(woven.code, 3) << before;
    EXPECT_TRUE(says(woven.err, "does not see where the training loop applies the model model") ||
                says(woven.err, "another variable"))
        << woven.err;
  }
  const CommandResult forward = script("apply = model.forward\n", "", "apply");
  EXPECT_EQ(forward.code, 3);
  EXPECT_TRUE(says(forward.err, "train.py:8: model.forward")) << forward.err;
}

TEST_F(WeaveReferences, ToAModelThatIsNotCompleteAreRefused) {
  const CommandResult moved = script("nets = [model]\nmodel = model.to('cpu')\n", "", "nets[0]");
  EXPECT_EQ(moved.code, 3);
  EXPECT_TRUE(says(moved.err, "before line 9 completes it")) << moved.err;
  EXPECT_EQ(script("nets = [model]\nmodel.cuda()\n", "", "nets[0]").code, 3);
}

TEST_F(WeaveReferences, AModelIsWrappedAfterItIsMovedToItsDevice) {
  for (const std::string move : {"model.to('cuda')\n", "model = model.to('cuda')\n",
                                 "if torch.cuda.is_available():\n    model.cuda()\n"}) {
    const CommandResult woven = script("", move, "model");
    EXPECT_GT(woven.out.find("model = DistributedDataParallel(model)"), woven.out.find(move)) << woven.out;
    EXPECT_EQ(woven.code, 0) << woven.err;
  }
}

}  // namespace
}  // namespace telar::test
#endif
