// Finding the fastest of several candidates, on a fake GPU.
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
  /// Keeps the stream busy for the given time.
  bool work(int milliseconds) {
    on_stream(gpu_.stream(), [=] { std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds)); });
    return true;
  }
  cuda::Gpu gpu_{0};
};

TEST_F(CudaFastest, IsFoundInRecordings) {
  EXPECT_EQ(cuda::fastest(gpu_, 3, [&](size_t candidate) { return work(candidate == 1 ? 0 : 15); }),
            (cuda::Fastest{1, true}));
  EXPECT_GT(fake().graphs, 0);
}

TEST_F(CudaFastest, IsOneThatCanBeRun) {
  EXPECT_EQ(cuda::fastest(gpu_, 3, [&](size_t candidate) { return candidate == 2 && work(0); }),
            (cuda::Fastest{2, true}));
  EXPECT_EQ(cuda::fastest(gpu_, 3, [](size_t /*candidate*/) { return false; }), std::nullopt);
  EXPECT_EQ(cuda::fastest(gpu_, 0, [](size_t /*candidate*/) { return true; }), std::nullopt);
}

TEST_F(CudaFastest, IsOneThatCanBeRecorded) {
  // The third call is the first one in a recording.
  const auto found = cuda::fastest(gpu_, 2, [&, calls = 0](size_t candidate) mutable {
    return (candidate == 1 || ++calls != 3) && work(0);
  });
  EXPECT_EQ(found, (cuda::Fastest{1, true}));
  fake().recording = cudaErrorStreamCaptureUnsupported;
  EXPECT_EQ(cuda::fastest(gpu_, 2, [&](size_t candidate) { return work(candidate == 1 ? 0 : 15); }),
            (cuda::Fastest{1, false}));
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

TEST_F(CudaFastest, IsWaitedForUnderTheWatch) {
  gpu_.watch([] { throw std::runtime_error("another member has failed"); });
  EXPECT_THROW(cuda::fastest(gpu_, 1, [&](size_t /*candidate*/) { return work(1); }), std::runtime_error);
  gpu_.watch({});
}

}  // namespace
}  // namespace telar::test
