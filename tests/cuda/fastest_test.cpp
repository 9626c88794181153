// The fastest of several candidates, on what stands for a GPU.
#include "telar/device/cuda/fastest.h"

#include <gtest/gtest.h>

#include <chrono>
#include <stdexcept>
#include <thread>

#include "cuda/fakes.h"
#include "cuda/streams.h"

namespace telar::test {
namespace {

class CudaFastest : public testing::Test {
 protected:
  void SetUp() override { fake() = {}; }
  void TearDown() override { fake() = {}; }
  /// Tells the stream to be busy for so long.
  bool work(int milliseconds) {
    on_stream(gpu_.stream(), [=] { std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds)); });
    return true;
  }
  cuda::Gpu gpu_{0};
};

TEST_F(CudaFastest, IsFoundRecordedOrNot) {
  for (const bool records : {true, false}) {
    fake().records = records;
    EXPECT_EQ(cuda::fastest(gpu_, 3, [&](size_t candidate) { return work(candidate == 1 ? 0 : 15); }), 1U);
    EXPECT_EQ(fake().graphs > 0, records);
    fake().graphs = 0;
    EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  }
}

TEST_F(CudaFastest, IsOneThatCanBeRun) {
  EXPECT_EQ(cuda::fastest(gpu_, 3, [&](size_t candidate) { return candidate == 2 && work(0); }), 2U);
  EXPECT_EQ(cuda::fastest(gpu_, 3, [](size_t /*candidate*/) { return false; }), std::nullopt);
  EXPECT_EQ(cuda::fastest(gpu_, 0, [](size_t /*candidate*/) { return true; }), std::nullopt);
}

TEST_F(CudaFastest, MayBeOneThatCannotBeRecorded) {
  EXPECT_EQ(cuda::fastest(gpu_, 1,
                          [&, calls = 0](size_t /*candidate*/) mutable { return ++calls != 3 && work(0); }),
            0U);
  gpu_.wait();
}

TEST_F(CudaFastest, IsWaitedForUnderTheWatch) {
  gpu_.watch([] { throw std::runtime_error("another member has failed"); });
  EXPECT_THROW(cuda::fastest(gpu_, 1, [&](size_t /*candidate*/) { return work(1); }), std::runtime_error);
  gpu_.watch({});
}

}  // namespace
}  // namespace telar::test
