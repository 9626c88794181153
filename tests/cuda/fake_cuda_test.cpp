// The module's own code, from the graph to the library calls, on the fakes. Only a GPU shows what the
// libraries really do (tests/device/cuda_device_test.cpp).
#include <gtest/gtest.h>

#include "cuda/fakes.h"
#include "cuda/forget_choices.h"
#include "ops/run_graph.h"
#include "support/gpu_cases.h"
#include "support/sentences.h"
#include "telar/device/cuda.h"
#include "telar/graph/ops/stage.h"

extern "C" void telar_cuda(telar::cuda::Functions& functions);

namespace telar {
namespace {

using test::fake;

class FakeCuda : public testing::Test {
 protected:
  void SetUp() override {
    fake() = {};
    telar_cuda(module_);
  }
  /// A test leaves at most one device, and none of its memory.
  void TearDown() override {
    EXPECT_EQ(fake().blocks, 0);
    EXPECT_EQ(fake().descriptors, 0);
    fake() = {};
  }
  std::unique_ptr<Device> device() const { return module_.make_device(0); }
  cuda::Functions module_;
};

TEST_F(FakeCuda, ComputesWhatProcessorsCompute) {
  for (const test::GpuCase& given : test::gpu_cases()) test::expect_as_on_processors(given, device());
  EXPECT_GT(fake().products, 0);
  EXPECT_GT(fake().convolutions, 0);
}

TEST_F(FakeCuda, ComputesWithChannelsInTheirPlaceWhereCudnnCannotOtherwise) {
  fake().channels_last = false;
  for (const test::GpuCase& given : test::gpu_cases()) test::expect_as_on_processors(given, device());
}

TEST_F(FakeCuda, TakesAnAlgorithmThatWorks) {
  fake().products_that_work = 1;
  test::expect_as_on_processors(test::gpu_cases().front(), device());
  fake().products_that_work = 0;
  test::forget_choices();
  test::expect_error([&] { bench::GraphRun(test::gpu_cases().front().graph, device()); },
                     {"none of ", "algorithms can compute cuBLASLt product", "cuda:0"}, Error::Kind::run);
}

TEST_F(FakeCuda, ChoosesAlgorithmsForTheFirstContextAlone) {
  GraphBuilder builder;
  const ValueId a = builder.input("a", {DType::f32, {8, 8}}, false);
  builder.output("y", matmul(builder, a, a));
  const Graph graph = builder.build();
  const auto gpu = device();
  const auto executable = gpu->compile(graph, {});
  const auto activations = gpu->allocate(executable->activation_bytes());
  Bindings bindings;
  bindings.activations = {activations->data(), activations->size()};
  const auto first = executable->bind(ArenaLayout::pack({}), bindings);
  const int tried = fake().products;
  EXPECT_GT(tried, 3);
  const auto second = executable->bind(ArenaLayout::pack({}), bindings);
  EXPECT_EQ(fake().products, tried);
}

TEST_F(FakeCuda, OfTheBenchIsWaitedForInEachRun) {
  bench::GraphRun run(test::gpu_cases().front().graph, device());
  const int waits = fake().waits;
  run.run();
  EXPECT_EQ(fake().waits, waits + 1);
}

class Listener final : public HostOperations {
 public:
  void communicate(const Node& /*node*/, std::span<float> /*memory*/) override {}
  bool listens() const override { return true; }
  void ran(const OperationName& operation) override { names.push_back(operation.op); }
  std::vector<std::string> names;
};

class Warned final : public HostOperations {
 public:
  void communicate(const Node& /*node*/, std::span<float> /*memory*/) override {}
  void warn(const std::string& text) override { texts.push_back(text); }
  std::vector<std::string> texts;
};

TEST_F(FakeCuda, RunsStepByStepWhatCannotBeRecorded) {
  GraphBuilder builder;
  const ValueId x = builder.input("x", {DType::f32, {2, 2}}, false);
  builder.output("y", matmul(builder, x, x));  // its algorithm is chosen without a recording, too
  const Graph graph = builder.build();
  const auto gpu = device();
  fake().recording = cudaErrorStreamCaptureInvalidated;
  const auto executable = gpu->compile(graph, {});
  const auto activations = gpu->allocate(executable->activation_bytes());
  Bindings bindings;
  bindings.activations = {activations->data(), activations->size()};
  const auto context = executable->bind(ArenaLayout::pack({}), bindings);
  Warned host;
  for (int run = 1; run <= 4; ++run) {
    const std::vector<float> values(4, static_cast<float>(run));
    context->set_input("x", values.data());
    context->run(host);
    EXPECT_EQ(context->output("y").front(), 2.0F * static_cast<float>(run * run));
  }
  EXPECT_EQ(fake().graphs, 0);
  ASSERT_EQ(host.texts.size(), 1U);
  EXPECT_TRUE(test::says(host.texts[0], "CUDA: recording a step failed: CUDA's words"));
}

TEST_F(FakeCuda, TellsEachOperationAndFindsTheFirstThatIsNotFinite) {
  GraphBuilder builder;
  builder.set_scope("front");
  const ValueId x = builder.input("x", {DType::f32, {1, 2, 3, 3}}, false);
  const ValueId w = builder.input("w", {DType::f32, {2, 2, 1, 1}}, false);
  builder.output("y", reduce_sum(builder, conv2d(builder, x, w, kNoValue, {}), {}));
  const Graph graph = builder.build();
  const auto gpu = device();
  CompileOptions options;
  options.tf32 = true;  // for channels last
  const auto executable = gpu->compile(graph, options);
  const auto activations = gpu->allocate(executable->activation_bytes());
  Bindings bindings;
  bindings.activations = {activations->data(), activations->size()};
  const auto context = executable->bind(ArenaLayout::pack({}), bindings);
  std::vector<float> images(18, 1e30F);
  std::vector<float> weights(4, 1);
  context->set_input("x", images.data());
  context->set_input("w", weights.data());
  images.assign(18, 0);  // changes the original after it was copied
  Listener host;
  const int waits = fake().waits;
  context->run(host);
  EXPECT_EQ(fake().waits, waits + 4);  // the host is notified of an operation when it has run
  EXPECT_EQ(host.names,
            (std::vector<std::string>{"conv2d (reorder)", "conv2d (reorder)", "conv2d", "reduce_sum"}));
  EXPECT_FLOAT_EQ(context->output("y").front(), 36e30F);
  EXPECT_EQ(context->find_non_finite(host), std::nullopt);
  weights.assign(4, 1e30F);
  context->set_input("w", weights.data());
  EXPECT_EQ(context->find_non_finite(host), "layer 'front' (conv2d)");
  test::expect_error([&] { context->output("z"); }, {"no output 'z'"}, Error::Kind::run);
}

TEST_F(FakeCuda, IsWaitedForAndSaysThenWhatFailed) {
  const auto gpu = device();
  const int waits = fake().waits;
  gpu->synchronise();
  EXPECT_EQ(fake().waits, waits + 1);
  fake().failure = cudaErrorIllegalAddress;
  test::expect_error([&] { gpu->synchronise(); }, {"work on the GPU", "CUDA's words"}, Error::Kind::run);
}

TEST_F(FakeCuda, GoesOnWhileACopyIsOnItsWayAndWhereNothingCanBePinned) {
  const auto gpu = device();
  const auto memory = gpu->allocate(4 * sizeof(float));
  std::vector<float> host(4);
  const auto bytes = std::as_writable_bytes(std::span(host));
  fake().pins = false;
  EXPECT_EQ(gpu->pin(bytes), nullptr);
  gpu->add(memory->data(), memory->data(), 4, 1);
  EXPECT_TRUE(gpu->start_copy_out(memory->data(), bytes, true)->done());  // waits for the copy
  gpu->add(memory->data(), memory->data(), 4, 1);
  fake().pins = true;
  const auto pinned = gpu->pin(bytes);
  const auto copy = gpu->start_copy_out(memory->data(), bytes, true);
  EXPECT_FALSE(copy->done());
  gpu->add(memory->data(), memory->data(), 4, 1);  // a kernel, which must not appear to have failed
  copy->wait();
  EXPECT_TRUE(copy->done());
}

TEST_F(FakeCuda, RefusesWhatItCannotDoYet) {
  GraphBuilder builder;
  const ValueId x = builder.input("x", {DType::f32, {2, 3}}, false);
  pause(builder);
  builder.output("y", x);
  const Graph graph = builder.build();
  const auto gpu = device();
  test::expect_error([&] { gpu->compile(graph, {}); }, {"a GPU cannot compute pause yet"}, Error::Kind::run);
}

TEST_F(FakeCuda, GivesAParameterInAnotherType) {
  GraphBuilder builder;
  builder.output("y", convert(builder, builder.parameter("w", {DType::f32, {2}}), DType::bf16));
  test::GraphRun run(builder.build());
  run.set_parameter("w", std::vector<float>{1.5F, 1.001F});
  run.run();
  EXPECT_EQ(run.output("y"), (std::vector<float>{1.5F, 1.0F}));
}

TEST_F(FakeCuda, WithTooLittleMemorySaysHowMuchWasWanted) {
  fake().memory = size_t{1} << 20;
  GraphBuilder builder;
  builder.output("y", reduce_sum(builder, builder.input("x", {DType::f32, {1 << 19}}, false), {}));
  const Graph graph = builder.build();
  const auto gpu = device();
  const auto executable = gpu->compile(graph, {});
  const auto activations = gpu->allocate(executable->activation_bytes());
  Bindings bindings;
  bindings.activations = {activations->data(), activations->size()};
  test::expect_error([&] { executable->bind(ArenaLayout::pack({}), bindings); },
                     {"cuda:0", "2.0 MiB wanted for a batch (CUDA's words)"}, Error::Kind::run);
  test::expect_error([&] { gpu->allocate(size_t{3} << 20, "optimizer state"); },
                     {"cuda:0", "3.0 MiB wanted for optimizer state (CUDA's words)"}, Error::Kind::run);
}

TEST_F(FakeCuda, ThatIsNotThereIsSaid) {
  fake().gpus = 2;
  test::expect_error([&] { module_.make_device(3); }, {"no cuda:3", "2 GPUs"});
  const CudaGpus both = module_.find_gpus();
  ASSERT_EQ(both.gpus.size(), 2U);
  EXPECT_EQ(both.gpus[1].name, "a fake");
  EXPECT_EQ(both.gpus[1].capability, "9.0");
  EXPECT_EQ(both.driver, "13.0");
  fake().gpus = 0;
  test::expect_error([&] { device(); }, {"no GPU: CUDA's words"});
  fake().driver = 0;
  test::expect_error([&] { device(); }, {"no GPU: NVIDIA's driver"});
  EXPECT_TRUE(test::says(module_.find_gpus().not_found, "driver"));
}

}  // namespace
}  // namespace telar
