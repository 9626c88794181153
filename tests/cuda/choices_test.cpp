// Algorithms that were chosen are used again by the next start.
#include "telar/device/cuda/choices.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "cuda/fakes.h"
#include "cuda/forget_choices.h"
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

using Names = std::vector<std::string>;

TEST_F(CudaChoices, AreThoseOfTheNextStart) {
  cuda::Choices first(file_);
  EXPECT_EQ(first.known("a product"), Names());
  first.keep("a product", "algorithm 3");
  first.keep("another", "algorithm 4");
  EXPECT_EQ(first.known("a product"), Names{"algorithm 3"});
  const cuda::Choices second(file_);
  EXPECT_EQ(second.known("a product"), Names{"algorithm 3"});
  EXPECT_EQ(second.known("another"), Names{"algorithm 4"});
}

TEST_F(CudaChoices, OfAnotherProcessHoldWhenTheyWereFirst) {
  cuda::Choices one(file_);
  cuda::Choices other(file_);
  one.keep("a product", "algorithm 1");
  other.keep("a product", "algorithm 2");
  const Names both{"algorithm 1", "algorithm 2"};
  EXPECT_EQ(one.known("a product"), Names{"algorithm 1"});
  EXPECT_EQ(other.known("a product"), both);
  EXPECT_EQ(cuda::Choices(file_).known("a product"), both);
}

TEST_F(CudaChoices, ThatWereCutOffCountForNothing) {
  cuda::Choices(file_).keep("a product", "algorithm 1");
  append(file_, "nonsense\nanother\talgorithm 17");
  EXPECT_EQ(cuda::Choices(file_).known("another"), Names());
  cuda::Choices(file_).keep("third", "algorithm 2");
  const cuda::Choices again(file_);
  EXPECT_EQ(again.known("a product"), Names{"algorithm 1"});
  EXPECT_EQ(again.known("third"), Names{"algorithm 2"});
  EXPECT_EQ(again.known("another"),
            Names{"algorithm 17 (cut off)"});  // may be part of 175: no algorithm has this name
}

TEST_F(CudaChoices, HoldForThisProcessWhereTheyCannotBeKept) {
  append(folder_.path() / "deeper", "a file where a folder should be");
  cuda::Choices choices(file_);
  choices.keep("a product", "algorithm 1");
  EXPECT_EQ(choices.known("a product"), Names{"algorithm 1"});
}

TEST_F(CudaChoices, AreNamedAfterTheGpuAndItsLibraries) {
  EXPECT_EQ(cuda::choices_file("a fake/GPU").filename(),
            "a fake-GPU, driver 13000, cuBLASLt 130001, cuDNN 91001, measuring 2.txt");
}

/// The computation of a start: y = conv2d(x), and its product with itself.
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

/// The file with the choices of this program's starts.
fs::path kept_file() {
  for (const auto& file : fs::recursive_directory_iterator(std::getenv("XDG_CACHE_HOME")))  // NOLINT
    if (file.is_regular_file()) return file.path();
  return {};
}

TEST_F(CudaChoices, ThatNoLongerExistAreMadeAnewAndOnce) {
  const std::vector<float> right = start();
  change_choices([](const std::string& /*what*/, const std::string& /*algorithm*/) { return "none"; });
  fake() = {};
  EXPECT_EQ(start(), right);
  EXPECT_GT(fake().plans, 2);
  const auto size = fs::file_size(kept_file());
  fake() = {};
  EXPECT_EQ(start(), right);
  EXPECT_EQ(fake().plans, 1);
  EXPECT_EQ(fake().products, 1);
  EXPECT_EQ(fs::file_size(kept_file()), size);
}

TEST_F(CudaChoices, BehindOneThatWasCutOffAreKept) {
  const std::vector<float> right = start();
  std::filesystem::resize_file(kept_file(), fs::file_size(kept_file()) - 3);
  EXPECT_EQ(start(), right);
  const auto size = fs::file_size(kept_file());
  fake() = {};
  EXPECT_EQ(start(), right);
  EXPECT_EQ(fake().plans, 1);
  EXPECT_EQ(fake().products, 1);
  EXPECT_EQ(fs::file_size(kept_file()), size);
}

}  // namespace
}  // namespace telar::test
