// Each process has its own GPU: no program may name GPU 0 for all of them.
#include "cli/weave_case.h"

#ifdef TELAR_WEAVE
namespace telar::test {
namespace {

class WeaveDevices : public WeaveCase {
 protected:
  /// A script that chooses its device by `device`, an expression.
  CommandResult script(const std::string& device, const std::string& move = "model.to(device)") const {
    return weave(
        "import sys\nimport torch\nfrom torch import nn, optim\n"
        "from torch.utils.data import DataLoader, TensorDataset\n"
        "number = len(sys.argv)\ndevice = " +
        device +
        "\nx = torch.randn(8, 4)\n"
        "loader = DataLoader(TensorDataset(x, x), batch_size=2, shuffle=True)\n"
        "model = nn.Linear(4, 4)\n" +
        move +
        "\noptimizer = optim.SGD(model.parameters(), lr=0.1)\nfor epoch in range(2):\n"
        "    for a, b in loader:\n        optimizer.zero_grad()\n"
        "        ((model(a) - b) ** 2).mean().backward()\n        optimizer.step()\n");
  }
  static constexpr const char* kNccl = "dist.init_process_group(\"nccl\" if torch.cuda.is_available()";
};

TEST_F(WeaveDevices, WithANumberBecomeTheProcesssOwn) {
  for (const auto& [device, woven] :
       {std::pair<std::string, std::string>{"0", "device = \"cuda\"\n"},
        {"0 if torch.cuda.is_available() else 'cpu'", "device = \"cuda\" if"},
        {"torch.device(0)", "device = torch.device(\"cuda\")\n"},
        {"torch.device('cuda', 0)", "device = torch.device('cuda')\n"},
        {"torch.device('cuda', index=0)", "device = torch.device('cuda')\n"},
        {"torch.device('cuda', number)", "device = torch.device('cuda')\n"},
        {"'cuda:' + str(number)", "device = \"cuda\"\n"},
        {"'cuda:%d' % number", "device = \"cuda\"\n"},
        {"torch.device('cuda:{}'.format(number))", "device = torch.device(\"cuda\")\n"}}) {
    const CommandResult result = script(device);
    EXPECT_TRUE(says(result.out, woven)) << device << result.err << result.out;
    EXPECT_TRUE(says(result.out, kNccl)) << device;
  }
  EXPECT_TRUE(says(script("None", "model.to(0)").out, "model.to(\"cuda\")\n"));
  EXPECT_TRUE(says(script("None", "model.to(device=0)").out, "model.to(device=\"cuda\")\n"));
}

TEST_F(WeaveDevices, OfTorchAcceleratorAreGpus) {
  const CommandResult result = script("torch.accelerator.current_accelerator()");
  EXPECT_TRUE(says(result.out, kNccl)) << result.err;
  EXPECT_TRUE(says(result.out, "torch.cuda.set_device("));
}

TEST_F(WeaveDevices, OfAnotherNumberAreRefused) {
  for (const char* device : {"1", "torch.device(1)", "torch.device('cuda', 1)", "'cuda:1'"}) {
    const CommandResult result = script(device);
    EXPECT_EQ(result.code, 3) << device;
    EXPECT_TRUE(says(result.err, "several GPUs")) << result.err;
  }
}

TEST_F(WeaveDevices, DoNotChangeOtherNumbers) {
  EXPECT_TRUE(
      says(script("torch.zeros(0).to(torch.float32)").out, "device = torch.zeros(0).to(torch.float32)"));
}

}  // namespace
}  // namespace telar::test
#endif
