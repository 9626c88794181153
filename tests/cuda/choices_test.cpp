// Algorithms that were chosen are those of the next start.
#include "telar/device/cuda/choices.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "cuda/fakes.h"
#include "ops/run_graph.h"
#include "telar/graph/ops/conv2d.h"
#include "telar/graph/ops/matmul.h"
#include "telar/io/temporary_folder.h"

namespace telar::test {
namespace {

namespace fs = std::filesystem;

class CudaChoices : public testing::Test {
 protected:
  void SetUp() override { fake() = {}; }
  TemporaryFolder folder_{"telar-choices"};
  fs::path file_ = folder_.path() / "deeper" / "choices.txt";
};

void append(const fs::path& file, const std::string& text) { std::ofstream(file, std::ios::app) << text; }

TEST_F(CudaChoices, AreThoseOfTheNextStart) {
  cuda::Choices first(file_);
  EXPECT_EQ(first.known("a product"), std::nullopt);
  EXPECT_EQ(first.keep("a product", "algorithm 3"), "algorithm 3");
  EXPECT_EQ(first.keep("another", "algorithm 4"), "algorithm 4");
  EXPECT_EQ(first.known("a product"), "algorithm 3");
  const cuda::Choices second(file_);
  EXPECT_EQ(second.known("a product"), "algorithm 3");
  EXPECT_EQ(second.known("another"), "algorithm 4");
}

TEST_F(CudaChoices, OfAnotherProcessHoldWhenTheyWereFirst) {
  cuda::Choices one(file_);
  cuda::Choices other(file_);
  EXPECT_EQ(one.keep("a product", "algorithm 1"), "algorithm 1");
  EXPECT_EQ(other.keep("a product", "algorithm 2"), "algorithm 1");
  EXPECT_EQ(cuda::Choices(file_).known("a product"), "algorithm 1");
}

TEST_F(CudaChoices, ThatWereCutOffCountForNothing) {
  cuda::Choices(file_).keep("a product", "algorithm 1");
  append(file_, "nonsense\nanother\talgorithm 17");
  EXPECT_EQ(cuda::Choices(file_).known("another"), std::nullopt);
  cuda::Choices(file_).keep("third", "algorithm 2");  // joins what was cut off
  cuda::Choices(file_).keep("third", "algorithm 3");
  const cuda::Choices again(file_);
  EXPECT_EQ(again.known("a product"), "algorithm 1");
  EXPECT_EQ(again.known("third"), "algorithm 3");
}

TEST_F(CudaChoices, HoldForThisProcessWhereTheyCannotBeKept) {
  append(folder_.path() / "deeper", "a file where a folder should be");
  cuda::Choices choices(file_);
  EXPECT_EQ(choices.keep("a product", "algorithm 1"), "algorithm 1");
  EXPECT_EQ(choices.known("a product"), "algorithm 1");
}

TEST_F(CudaChoices, AreNamedAfterTheGpuAndItsLibraries) {
  EXPECT_EQ(cuda::choices_file("a fake/GPU").filename(),
            "a fake-GPU, driver 13000, cuBLASLt 130001, cuDNN 91001.txt");
}

/// What a start computes: y = conv2d(x) and its product with itself.
std::vector<float> start() {
  GraphBuilder builder;
  const ValueId x = builder.input("x", {DType::f32, {2, 8, 6, 6}}, true);
  const ValueId w = builder.parameter("w", {DType::f32, {8, 8, 3, 3}});
  const ValueId y = conv2d(builder, x, w, kNoValue, {});
  builder.output("y", matmul(builder, y, y, true, false));
  GraphRun run(builder.build());
  run.set_input("x", std::span<const float>(numbers(2 * 8 * 36, 1)));
  run.set_parameter("w", numbers(8 * 8 * 9, 2));
  run.run();
  return run.output("y");
}

TEST_F(CudaChoices, SpareTheNextStartItsMeasuring) {
  const std::vector<float> first = start();
  const int plans = fake().plans;
  const int products = fake().products;
  EXPECT_GT(plans, 2);
  EXPECT_GT(products, 2);
  fake() = {};
  EXPECT_EQ(start(), first);
  EXPECT_EQ(fake().plans, 1);
  EXPECT_EQ(fake().products, 1);
  EXPECT_EQ(fake().executed.size(), 1U);
}

TEST_F(CudaChoices, ThatNoLongerExistAreMadeAnew) {
  const std::vector<float> right = start();
  for (const auto& file : fs::recursive_directory_iterator(std::getenv("XDG_CACHE_HOME"))) {  // NOLINT
    if (!file.is_regular_file()) continue;
    std::ifstream lines(file.path());
    std::string changed;
    for (std::string line; std::getline(lines, line);)
      changed += line.substr(0, line.find('\t')) + "\tnone\n";
    std::ofstream(file.path()) << changed;
  }
  fake() = {};
  EXPECT_EQ(start(), right);
  EXPECT_GT(fake().plans, 2);
}

}  // namespace
}  // namespace telar::test
