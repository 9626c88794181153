// GPUs of several processes, which are threads here: what they agree on before and during training.
#include <gtest/gtest.h>

#include "cuda/module_settings.h"
#include "support/make_session.h"
#include "support/sentences.h"
#include "support/thread_processes.h"
#include "telar/device/cuda.h"
#include "telar/nn/zoo.h"

namespace telar {
namespace {

using test::as_processes;
using test::Samples;

std::unique_ptr<Session> session_of(Processes& process, const std::string& device, GpuExchange exchange,
                                    std::vector<std::string>* sentences = nullptr) {
  test::SessionSetup setup{.mirrored = true, .devices = {device}};
  setup.session.processes = &process;
  setup.session.gpu_exchange = exchange;
  if (sentences != nullptr)
    setup.session.say = [sentences](const std::string& text) { sentences->push_back(text); };
  return test::make_session(make_model("mlp", {{"hidden", std::vector<int64_t>{16}}}, {1, 8, 8}, 10),
                            {.batch = 12, .optimizer = SgdOptions{}}, setup);
}

std::string gpu_of(const Processes& process) { return process.rank() == 0 ? "cuda:0" : "cuda:1"; }

TEST(GpuProcesses, TakeResultsAfterEquallyManyStepsHoweverFastTheyAre) {
  as_processes(2, [](Processes& process) {
    auto session = session_of(process, gpu_of(process), GpuExchange::nccl);
    const Samples samples(6, {1, 8, 8}, 10, static_cast<uint64_t>(process.rank()));
    for (int64_t step = 1; step <= static_cast<int64_t>(Session::kStepsAhead); ++step) {
      for (int i = 0; i < 100; ++i) EXPECT_FALSE(session->finished(false)) << "before step " << step;
      session->begin(samples.view(), {.learning_rate = 0.01F, .step = step, .samples = 12});
      process.any(false);
    }
    EXPECT_TRUE(session->finished(false));
    EXPECT_FALSE(session->finished(false));
  });
}

TEST(GpuProcesses, TellGpusApartThatTheyCountAlike) {
  // As if the first GPU were hidden from the second process.
  std::vector<std::unique_ptr<Device>> devices;
  devices.push_back(make_cuda_device(0));
  test::fake_of_module().hidden_gpus = 1;
  devices.push_back(make_cuda_device(0));
  test::fake_of_module().hidden_gpus = 0;
  EXPECT_EQ(devices[0]->name(), devices[1]->name());
  const auto why_not = [](std::unique_ptr<Device>& first, std::unique_ptr<Device>& second) {
    std::string found;
    as_processes(2, [&](Processes& process) {
      std::vector<std::unique_ptr<Device>> mine;
      mine.push_back(std::move(process.rank() == 0 ? first : second));
      const std::string reason = why_not_nccl(mine, &process);
      (process.rank() == 0 ? first : second) = std::move(mine[0]);
      if (process.rank() == 0) found = reason;
    });
    return found;
  };
  EXPECT_EQ(why_not(devices[0], devices[1]), "");
  auto same = make_cuda_device(0);
  EXPECT_TRUE(test::says(why_not(devices[0], same), "several replicas share cuda:0 of "));
}

TEST(GpuProcesses, ThatComputeOnDifferentKindsOfDevicesAreRefused) {
  for (const GpuExchange exchange : {GpuExchange::host, GpuExchange::automatic}) {
    for (const auto& [first, second] : {std::pair("cpu", "cuda:0"), std::pair("cuda:0", "cpu")}) {
      test::expect_error(
          [&, first = first, second = second] {
            as_processes(2, [&](Processes& process) {
              // A job without a GPU does not set how GPUs exchange gradients.
              const std::string device = process.rank() == 0 ? first : second;
              session_of(process, device, device == "cpu" ? GpuExchange::automatic : exchange);
            });
          },
          {"CPUs and GPUs can train together only within one process", "rank 1 has a"});
    }
  }
  test::expect_error(
      [] {
        as_processes(2, [](Processes& process) {
          session_of(process, gpu_of(process), process.rank() == 0 ? GpuExchange::host : GpuExchange::nccl);
        });
      },
      {"rank 1 differs from rank 0 in strategy.gpu_exchange"});
}

TEST(GpuProcesses, SayWhyTheirGradientsGoThroughTheHost) {
  as_processes(2, [](Processes& process) {
    std::vector<std::string> sentences;
    session_of(process, "cuda:1", GpuExchange::automatic, &sentences);
    ASSERT_EQ(sentences.size(), 1U);
    EXPECT_TRUE(test::says(sentences[0], "through the host's memory: several replicas share cuda:1 of "));
    session_of(process, "cuda:1", GpuExchange::host, &sentences);
    session_of(process, "cpu", GpuExchange::automatic, &sentences);
    EXPECT_EQ(sentences.size(), 1U);
  });
}

}  // namespace
}  // namespace telar
