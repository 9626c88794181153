// The whole program on stand-ins for two GPUs and NCCL (tests/cuda).
// The reference is the same training on the CPU.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/command.h"
#include "support/paths.h"
#include "support/sentences.h"
#include "telar/device/cpu/processor_support.h"

namespace telar::test {
namespace {

namespace fs = std::filesystem;

const std::string kImages =
    "model: {name: mlp, options: {hidden: [16]}}\n"
    "data: {source: synthetic, samples: 300, test_samples: 60, shape: [1, 6, 6], classes: 3}\n"
    "training: {epochs: 2, batch: 32}\n"
    "strategy: {threads: 1}\n";
const std::string kConvolutions =
    "model:\n"
    "  layers:\n"
    "    - {type: conv2d, channels: 4, kernel: 3, padding: 1}\n"
    "    - {type: batch_norm}\n"
    "    - {type: relu}\n"
    "    - {type: max_pool}\n"
    "    - {type: flatten}\n"
    "    - {type: linear, features: 3}\n"
    "data: {source: synthetic, samples: 200, test_samples: 40, shape: [1, 6, 6], classes: 3}\n"
    "optimizer: {name: sgd, momentum: 0.9}\n"
    "training: {epochs: 2, batch: 32}\n"
    "strategy: {threads: 1}\n";
/// A job with long epochs that runs until it is stopped.
const std::string kEndless =
    "model: {name: mlp, options: {hidden: [16]}}\n"
    "data: {source: synthetic, samples: 20000, test_samples: 60, shape: [1, 6, 6], classes: 3}\n"
    "training: {epochs: 100000, batch: 32}\n"
    "strategy: {threads: 1}\n";

/// The name under which the limits of the stand-in GPUs are stored, and limits that no measurement reaches.
const std::string kFake = "a fake, driver for CUDA 13.0";
const nlohmann::json kVast = {
    {"f32_operations", 1e15}, {"tf32_operations", 2e15}, {"bf16_operations", 4e15}, {"memory_bytes", 1e18}};

const std::string kMirrored = " --set strategy.name=mirrored --set strategy.batch_norm=synchronised";

std::string devices(const std::string& list) { return " --set 'strategy.devices=[" + list + "]'"; }

class Gpu : public testing::Test {
 protected:
  void SetUp() override {
#ifndef TELAR_FAKE_CUDA
    GTEST_SKIP()
        << "NOT TESTED: the stand-ins for GPUs need CUDA's headers, which CMake has not found; or this is a sanitizer build, where only tests/cuda uses them";
#endif
    write_text(folder_ / "mlp.yaml", kImages);
    write_text(folder_ / "conv.yaml", kConvolutions);
    write_text(folder_ / "endless.yaml", kEndless);
    keep_limits(kVast);
    for (const char* allowed : {"OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"})
      ::setenv(allowed, "1", 1);  // NOLINT(concurrency-mt-unsafe): one thread
  }

  CommandResult telar(const std::string& arguments, const std::string& prefix = "timeout 60") const {
#ifdef TELAR_FAKE_CUDA
    return telar_in(folder_.path(), arguments,
                    "XDG_CACHE_HOME=. TELAR_MODULES='" + fake_cuda_folder() + "' " + prefix);
#else
    return telar_in(folder_.path(), arguments, prefix);
#endif
  }
  /// Without the GPU module; or, if the program's own module is installed, with it but without a GPU.
  CommandResult telar_without_gpus(const std::string& arguments) const {
    return telar_in(folder_.path(), arguments, "TELAR_MODULES= CUDA_VISIBLE_DEVICES= timeout 60");
  }
  /// Stores these limits as if they had been measured on these GPUs before.
  void keep_limits(const nlohmann::json& limits) const {
    nlohmann::json kept;
    kept[kFake] = limits;
    fs::create_directories(folder_ / "telar");
    write_text(folder_ / "telar" / "limits.json", kept.dump());
  }
  nlohmann::json kept_limits() const {
    return nlohmann::json::parse(read_text(folder_ / "telar" / "limits.json")).at(kFake);
  }
  /// The rows of an experiment that wrote b.json.
  nlohmann::json rows() const { return nlohmann::json::parse(read_text(folder_ / "b.json")).at("rows"); }

  static bool says_why(const std::string& text) {
    return says(text, "the module telar-cuda is missing") || says(text, "no GPU: ");
  }

  void train(const std::string& arguments, const std::string& prefix = "timeout 60") const {
    const CommandResult result = telar("train " + arguments, prefix);
    ASSERT_EQ(result.code, 0) << arguments << "\n" << result.err;
  }

  nlohmann::json summary(const std::string& run) const {
    return nlohmann::json::parse(read_text(folder_ / run / "summary.json"));
  }

  /// The values of a key in the lines of one kind in metrics.jsonl.
  std::vector<double> logged(const std::string& run, const std::string& kind, const std::string& key) const {
    std::vector<double> values;
    std::istringstream lines(read_text(folder_ / run / "metrics.jsonl"));
    for (std::string line; std::getline(lines, line);) {
      const auto json = nlohmann::json::parse(line);
      if (json.at("kind") == kind) values.push_back(json.at(key));
    }
    return values;
  }

  void expect_same(const std::string& run, const std::string& right, double tolerance = 1e-3) const {
    const auto found = logged(run, "step", "loss");
    const auto losses = logged(right, "step", "loss");
    ASSERT_EQ(found.size(), losses.size()) << run;
    ASSERT_FALSE(losses.empty());
    for (size_t s = 0; s < losses.size(); ++s)
      EXPECT_NEAR(found[s], losses[s], tolerance) << run << ", step " << s + 1;
    for (const char* loss : {"train_loss", "validation_loss", "test_loss"})
      EXPECT_NEAR(summary(run).at(loss).get<double>(), summary(right).at(loss).get<double>(), tolerance)
          << run << ", " << loss;
  }

  /// Expects the result of a mistake: one error message that contains these parts, and no run.
  void expect_refused(const std::string& arguments, const std::vector<std::string>& parts) const {
    const CommandResult result = telar("train mlp.yaml --output refused " + arguments);
    EXPECT_EQ(result.code, 2) << arguments << "\n" << result.out << result.err;
    EXPECT_EQ(result.err.rfind("error: ", 0), 0U) << result.err;
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
    for (const std::string& part : parts) EXPECT_TRUE(says(result.err, part)) << arguments;
    EXPECT_FALSE(fs::exists(folder_ / "refused")) << arguments;
  }

  TempFolder folder_;
};

TEST_F(Gpu, TrainsLikeTheCpu) {
  for (const std::string job : {"mlp", "conv"}) {
    train(job + ".yaml --output " + job + "-cpu");
    train(job + ".yaml --output " + job + "-gpu --set device=cuda");
    expect_same(job + "-gpu", job + "-cpu");
  }
  EXPECT_EQ(summary("mlp-gpu").at("devices"), nlohmann::json({"cuda:0"}));
  EXPECT_TRUE(says(read_text(folder_ / "mlp-gpu" / "job.yaml"), "devices: [cuda]"));
}

TEST_F(Gpu, LearnsRealImagesLikeTheCpu) {
  if (!fs::exists("/usr/share/datasets/fashion-mnist"))
    GTEST_SKIP() << "NOT TESTED: /usr/share/datasets/fashion-mnist is missing";
  const std::string job =
      "mlp.yaml --set 'data={source: fashion-mnist, limit: 200, validation: 0.2}' --set training.epochs=1 ";
  train(job + "--output cpu");
  train(job + "--output gpu --set device=cuda:1");
  expect_same("gpu", "cpu");
}

TEST_F(Gpu, LowerPrecisionsAreClose) {
  train("conv.yaml --output f32");
  train("conv.yaml --output bf16 --set device=cuda --set training.precision=bf16");
  train("conv.yaml --output tf32 --set device=cuda --set training.precision=tf32");
  expect_same("bf16", "f32", 3e-2);
  expect_same("tf32", "f32", 5e-3);
  for (const char* run : {"bf16", "tf32"})
    EXPECT_NE(logged(run, "step", "loss"), logged("f32", "step", "loss")) << run;
}

TEST_F(Gpu, ClipsGradientsLikeTheCpu) {
  train("mlp.yaml --output cpu --set optimizer=sgd --set training.clip_norm=0.1");
  train("mlp.yaml --output gpu --set optimizer=sgd --set training.clip_norm=0.1 --set device=cuda");
  train("mlp.yaml --output unclipped --set optimizer=sgd --set device=cuda");
  expect_same("gpu", "cpu");
  EXPECT_GT(std::abs(logged("gpu", "step", "loss").back() - logged("unclipped", "step", "loss").back()),
            1e-3);
}

TEST_F(Gpu, MirroredEqualsSingle) {
  train("conv.yaml --output single");
  const auto mirrored = [&](const std::string& run, const std::string& more) {
    train("conv.yaml --output " + run + kMirrored + more);
    expect_same(run, "single");
    EXPECT_EQ(summary(run).at("replicas"), 2) << run;
  };
  mirrored("nccl", devices("cuda:0, cuda:1") + " --set strategy.gpu_exchange=nccl");
  EXPECT_FALSE(summary("nccl").contains("communication")) << "the host does not see the time that NCCL takes";
  mirrored("host", devices("cuda:0, cuda:1") + " --set strategy.gpu_exchange=host");
  EXPECT_TRUE(summary("host").contains("communication"));
  mirrored("shared", devices("cuda:0, cuda:0"));
  mirrored("hybrid", devices("cuda:0, cpu"));
  EXPECT_TRUE(says(summary("hybrid").at("devices").dump(), "cuda:0"));
  EXPECT_TRUE(says(summary("hybrid").at("devices").dump(), "cpu"));
}

TEST_F(Gpu, ProcessesOverMpiTrainLikeASingleProcess) {
  if (std::system("mpirun --version >/dev/null 2>&1") != 0)  // NOLINT(concurrency-mt-unsafe): one thread
    GTEST_SKIP() << "NOT TESTED: mpirun is missing";
  train("conv.yaml --output single");
  const std::string two = "timeout 60 mpirun -n 2 --oversubscribe -x TELAR_MODULES";
  const CommandResult shared =
      telar("train conv.yaml --output shared --set strategy.replicas=1 --set device=cuda:0" + kMirrored, two);
  ASSERT_EQ(shared.code, 0) << shared.err;
  EXPECT_TRUE(says(shared.out, "through the host's memory: several replicas share cuda:0 of "));
  expect_same("shared", "single");
  train(
      "conv.yaml --output own --set strategy.replicas=1 --set device=cuda --set strategy.gpu_exchange=host" +
          kMirrored,
      two);
  expect_same("own", "single");
  EXPECT_EQ(summary("own").at("devices"), nlohmann::json({"cuda:0"})) << "the device of the first process";
  train("conv.yaml --output unlike --set strategy.replicas=1 --set device=cuda:1" + kMirrored,
        "timeout 60 mpirun --oversubscribe -x TELAR_MODULES -n 1");
  expect_same("unlike", "single");
}

TEST_F(Gpu, ARunResumesOnAnotherDevice) {
  train("conv.yaml --output whole");
  train("conv.yaml --output from-gpu --set device=cuda --set training.epochs=1");
  const CommandResult on_cpu =
      telar_without_gpus("train from-gpu --resume --set device=cpu --set training.epochs=2");
  ASSERT_EQ(on_cpu.code, 0) << on_cpu.err;
  EXPECT_TRUE(says(on_cpu.out, "resuming from-gpu after step 6"));
  expect_same("from-gpu", "whole");

  train("conv.yaml --output from-cpu --set training.epochs=1");
  train("from-cpu --resume --set device=cuda --set training.epochs=2");
  expect_same("from-cpu", "whole");
}

TEST_F(Gpu, ARunOverNcclResumesOnTheCpu) {
  train("conv.yaml --output whole");
  train("conv.yaml --output run --set strategy.gpu_exchange=nccl --set training.epochs=1" + kMirrored +
        devices("cuda:0, cuda:1"));
  const CommandResult resumed =
      telar_without_gpus("train run --resume --set device=cpu --set training.epochs=2");
  ASSERT_EQ(resumed.code, 0) << resumed.err;
  expect_same("run", "whole");
}

TEST_F(Gpu, WorkersWithParameterServersLearn) {
  train("mlp.yaml --output run --set strategy.name=downpour --set training.epochs=4" +
        devices("cuda:0, cuda:1"));
  const auto losses = logged("run", "epoch", "train_loss");
  ASSERT_EQ(losses.size(), 4U);
  EXPECT_LT(losses.back(), 0.75 * losses.front());
  EXPECT_EQ(summary("run").at("replicas"), 2) << "one worker for each device";
  train("mlp.yaml --output sync-cpu --set strategy.name=sync_ps");
  train("mlp.yaml --output sync-gpu --set strategy.name=sync_ps" + devices("cuda:0, cpu"));
  EXPECT_NEAR(summary("sync-gpu").at("test_loss").get<double>(),
              summary("sync-cpu").at("test_loss").get<double>(), 1e-3);
}

TEST_F(Gpu, RunsAreEvaluatedWithoutAGpu) {
  train("conv.yaml --output run --set training.precision=tf32" + kMirrored + devices("cuda:0, cuda:1") +
        " --set strategy.gpu_exchange=nccl");
  const double right = summary("run").at("test_loss").get<double>();
  const auto loss = [&](const CommandResult& result) {
    EXPECT_EQ(result.code, 0) << result.err;
    return nlohmann::json::parse(read_text(folder_ / "e.json")).at("test_loss").get<double>();
  };
  const CommandResult here = telar("evaluate run --summary e.json");
  EXPECT_NEAR(loss(here), right, 1e-5);
  EXPECT_EQ(here.err, "");
  const CommandResult one = telar("evaluate run --set device=cuda:1 --summary e.json");
  EXPECT_NEAR(loss(one), right, 1e-3);
  const CommandResult told = telar("evaluate run --set device=cpu --summary e.json");
  EXPECT_NEAR(loss(told), right, 1e-3);
  EXPECT_EQ(told.err, "");
  const CommandResult elsewhere = telar_without_gpus("evaluate run --summary e.json");
  EXPECT_NEAR(loss(elsewhere), right, 1e-3);
  for (const char* part : {"warning: ", "trained on cuda:0, cuda:1", "on the CPU"})
    EXPECT_TRUE(says(elsewhere.err, part));
  EXPECT_TRUE(says_why(elsewhere.err));
  EXPECT_EQ(telar_without_gpus("evaluate run --quiet").err, "");
  const CommandResult named = telar_without_gpus("evaluate run --set device=cuda");
  EXPECT_EQ(named.code, 2) << "a device that is named explicitly is required";
  EXPECT_TRUE(says_why(named.err));
}

TEST_F(Gpu, PredictsLikeTheCpu) {
  std::string table = "a,b,label\n";
  for (int i = 0; i < 90; ++i)
    table += std::to_string(i % 3) + "." + std::to_string(i % 7) + "," + std::to_string(-i % 3) + "," +
             std::to_string(i % 3) + "\n";
  write_text(folder_ / "t.csv", table);
  write_text(folder_ / "new.csv", "a,b\n0.1,0\n2.5,-2\n1.2,-1\n");
  train(
      "mlp.yaml --output run --set 'data={source: csv, path: t.csv, classes: 3, test: 0.2}' --set training.epochs=8 --set training.batch=8 --set device=cuda");
  const CommandResult here = telar("predict run new.csv --out gpu.csv");
  EXPECT_EQ(here.code, 0) << here.err;
  const CommandResult elsewhere = telar_without_gpus("predict run new.csv --out cpu.csv");
  EXPECT_EQ(elsewhere.code, 0) << elsewhere.err;
  EXPECT_TRUE(says(elsewhere.err, "warning: ")) << "the warning is not part of the table";
  std::istringstream gpu(read_text(folder_ / "gpu.csv"));
  std::istringstream cpu(read_text(folder_ / "cpu.csv"));
  int rows = 0;
  for (std::string a, b; std::getline(gpu, a) && std::getline(cpu, b); ++rows) {
    const size_t last = b.rfind(',') + 1;
    EXPECT_EQ(a.substr(0, last), b.substr(0, last));
    if (rows == 0) continue;  // the column names
    EXPECT_NEAR(std::stod(a.substr(last)), std::stod(b.substr(last)), 1e-4);
  }
  EXPECT_EQ(rows, 4);
}

TEST_F(Gpu, StopsAtCtrlCAfterAStepAndResumes) {
  // As in an interactive shell: a background job of a script would ignore SIGINT.
  write_text(folder_ / "interrupt.sh",
             "\"$@\" &\n"
             "for i in $(seq 600); do [ -s run/metrics.jsonl ] && break; sleep 0.05; done\n"
             "kill -INT $!; wait $!; exit $?\n");
  const CommandResult stopped =
      telar("train endless.yaml --output run --set device=cuda", "bash -m interrupt.sh");
  EXPECT_EQ(stopped.code, 130) << stopped.err;
  EXPECT_TRUE(says(stopped.out, "telar train run --resume"));
  const auto steps = logged("run", "step", "step");
  ASSERT_FALSE(steps.empty());
  for (size_t s = 0; s < steps.size(); ++s) EXPECT_EQ(steps[s], static_cast<double>(s + 1));
  std::string newest;
  for (const auto& entry : fs::directory_iterator(folder_ / "run" / "checkpoints"))
    newest = std::max(newest, entry.path().filename().string());
  const auto state =
      nlohmann::json::parse(read_text(folder_ / "run" / "checkpoints" / newest / "state.json"));
  EXPECT_EQ(state.at("step").get<double>(), steps.back()) << "a step that was begun is counted";
  // Resumed from there, it equals a run that was not stopped.
  const auto made = static_cast<size_t>(steps.back());
  const std::string first = " --set training.epochs=" + std::to_string(made / 563 + 1);
  if (made > 3000) return;  // on a fast machine the comparison would take too long
  train("run --resume --set device=cuda" + first);
  train("endless.yaml --output whole --set device=cuda" + first);
  const auto found = logged("run", "step", "loss");
  const auto right = logged("whole", "step", "loss");
  ASSERT_EQ(found.size(), right.size());
  // Not bitwise: each start chooses its algorithms by measurement.
  for (size_t s = 0; s < std::min(made + 20, right.size()); ++s)
    EXPECT_NEAR(found[s], right[s], 1e-3) << "step " << s + 1;
}

TEST_F(Gpu, MistakesHaveErrorMessages) {
  expect_refused("--set device=tpu", {"--set device=tpu", "no device 'tpu'", "cpu:0-7", "cuda:N"});
  expect_refused("--set device=cuda:x", {"no device 'cuda:x'", "N from 0"});
  expect_refused("--set device=cuda:", {"--set device=cuda:", "'cuda:' lacks its number", "cuda:0"});
  expect_refused("--set device=cuda:7", {"strategy.devices", "no cuda:7", "2 GPUs", "telar devices"});
  expect_refused("--set device=cpu:99-3", {"--set device=cpu:99-3", "no device 'cpu:99-3'", "cpu:0-7"});
  expect_refused("--set device=cpu:0 --set strategy.threads=2",
                 {"strategy.threads is 2", "cpu:0", "each of its 1 cores"});
  expect_refused("--set device=cpu:4000", {"no core 4000", "cpu:4000", "the cores 0 to"});
  expect_refused("--set 'device=[]'", {"strategy.devices is empty", "such as cpu"});
  expect_refused(devices("cuda, cuda:1"), {"2 devices", "single uses only one", "mirrored"});
  expect_refused(kMirrored + " --set strategy.replicas=2" + devices("cuda, cuda, cpu"),
                 {"3 devices for 2 replicas", "one for each"});
  expect_refused("--set strategy.name=downpour --set strategy.workers=2" + devices("cuda, cuda, cpu"),
                 {"3 devices for 2 workers", "one for each"});
  expect_refused("--set training.precision=tf32", {"tf32", "only GPUs", "f32 and bf16"});
  expect_refused("--set training.precision=tf32" + kMirrored + devices("cuda, cpu"), {"tf32", "only GPUs"});
  expect_refused("--set training.convolution=winograd --set device=cuda", {"winograd", "only CPUs", "GPU"});
  expect_refused("--set strategy.name=pipeline --set device=cuda",
                 {"stages of strategy pipeline run on CPUs", "mirrored"});
  expect_refused(kMirrored + " --set strategy.gpu_exchange=nccl --set device=cuda",
                 {"strategy.gpu_exchange", "share cuda:0", "host sums them"});
  expect_refused(kMirrored + " --set strategy.gpu_exchange=nccl" + devices("cuda, cpu"),
                 {"strategy.gpu_exchange", "not all replicas run on GPUs"});
  expect_refused("--set device=cuda --set strategy.devices=cpu",
                 {"strategy.devices is given already", "device is a short name"});
  const CommandResult without = telar_without_gpus("train mlp.yaml --output refused --set device=cuda");
  EXPECT_EQ(without.code, 2);
  for (const char* part : {"strategy.devices", "cuda"}) EXPECT_TRUE(says(without.err, part));
  EXPECT_TRUE(says_why(without.err));
}

TEST_F(Gpu, BenchTrainMeasuresOrReportsTheReason) {
  const std::string bench =
      "bench train --model mlp --data synthetic --steps 5 --batch 8 --set 'model.options.hidden=[8]' --set 'data.shape=[1, 4, 4]' --set data.classes=3 --set data.test_samples=20 --json b.json ";
  const CommandResult here = telar(bench + "--precision f32,bf16 --environments gpu,gpu:2,gpu:3,gpu+cpu");
  ASSERT_EQ(here.code, 0) << here.err;
  ASSERT_EQ(rows().size(), 8U);
  for (const auto& row : rows()) {
    const bool missing = row.at("environment") == "gpu:3";
    const bool on_cpu = row.at("environment") == "gpu+cpu" && row.at("precision") == "bf16";
    const bool impossible = missing || (on_cpu && !cpu::bf16_missing().empty());
    EXPECT_EQ(row.contains("median_ms") && !row.at("median_ms").is_null(), !impossible) << row.dump();
    EXPECT_EQ(says(row.dump(), "there are 2 GPUs"), missing);
    EXPECT_EQ(row.contains("limit_ms"), row.at("environment") == "gpu") << row.dump();
  }
  const CommandResult without = telar_without_gpus(bench + "--environments gpu,gpu:2,gpu+cpu");
  ASSERT_EQ(without.code, 0) << without.err;
  ASSERT_EQ(rows().size(), 3U);
  for (const auto& row : rows()) EXPECT_TRUE(says_why(row.dump()));
}

TEST_F(Gpu, ProductsUseTheLimitsStoredForTheGpusName) {
  const std::string bench =
      "bench matmul --sizes 16 --devices cuda:1 --reps 1 --json b.json --precision f32,tf32,bf16";
  ASSERT_EQ(telar(bench).code, 0);
  ASSERT_EQ(rows().size(), 3U);
  const double operations = 2.0 * 16 * 16 * 16;
  for (const auto& [row, rate] : {std::pair{0, 1e15}, {1, 2e15}, {2, 4e15}})
    EXPECT_DOUBLE_EQ(rows()[row].at("limit_ms"), 1e3 * operations / rate);
  nlohmann::json slow_memory = kVast;
  slow_memory["memory_bytes"] = 1e12;
  keep_limits(slow_memory);
  ASSERT_EQ(telar(bench).code, 0);
  EXPECT_DOUBLE_EQ(rows()[0].at("limit_ms"), 1e3 * 3 * 16 * 16 * 4 / 1e12);
  slow_memory["cache_bytes"] = 1e6;
  keep_limits(slow_memory);
  ASSERT_EQ(telar(bench).code, 0);
  EXPECT_DOUBLE_EQ(rows()[0].at("limit_ms"), 1e3 * operations / 1e15) << "the operands fit into its cache";
}

TEST_F(Gpu, ALimitBelowAProductIsMeasuredAgain) {
  keep_limits({{"f32_operations", 1}, {"tf32_operations", 1}, {"bf16_operations", 1}, {"memory_bytes", 1}});
  const CommandResult result = telar("bench matmul --sizes 16 --devices cuda:1 --reps 1 --json b.json");
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_TRUE(says(result.out, "cuda:1 is a fake with 3 multiprocessors"));
  for (const char* figure : {"f32_operations", "tf32_operations", "bf16_operations", "memory_bytes"})
    EXPECT_GT(kept_limits().at(figure), 1e6) << figure;
}

TEST_F(Gpu, LimitsAreMeasuredAndStored) {
  const CommandResult here = telar("bench limits --devices gpu,cuda:7 --json b.json");
  ASSERT_EQ(here.code, 0) << here.err;
  ASSERT_EQ(rows().size(), 2U);
  for (const char* figure :
       {"product f32", "product tf32", "product bf16", "memory, read and written", "from the host"})
    EXPECT_GT(rows()[0].at("figures").at(figure).at("value"), 0) << figure;
  EXPECT_TRUE(says(rows()[1].dump(), "no cuda:7"));
  EXPECT_LT(kept_limits().at("f32_operations"), 1e15);
  EXPECT_EQ(kept_limits().at("cache_bytes"), 1 << 20);
  const CommandResult without = telar_without_gpus("bench limits --devices gpu --json b.json");
  EXPECT_EQ(without.code, 0) << without.err;
  EXPECT_TRUE(says_why(rows()[0].dump()));
  EXPECT_EQ(telar("bench limits --devices tpu").code, 2);
}

TEST_F(Gpu, ShowsDevicesAndProfiles) {
  EXPECT_EQ(telar("devices").code, 0);
  EXPECT_EQ(telar_without_gpus("devices --json").code, 0);
  train("mlp.yaml --output run --profile" + kMirrored + devices("cuda:0, cuda:1"));
  EXPECT_TRUE(fs::exists(folder_ / "run" / "trace.json"));
  // TensorBoard's graph names the GPU of each operation.
  bool second = false;
  for (const auto& entry : fs::directory_iterator(folder_ / "run"))
    if (entry.path().filename().string().starts_with("events"))
      second = second || read_text(entry.path()).find("replica:1/device:GPU:1") != std::string::npos;
  EXPECT_TRUE(second);
}

}  // namespace
}  // namespace telar::test
