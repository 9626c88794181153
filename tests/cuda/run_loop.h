#pragma once

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

namespace telar::test {

/// Calls loop(stream) with a new stream and waits until it is done.
template <typename Loop>
void run_loop(const Loop& loop) {
  cudaStream_t stream = nullptr;
  ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
  EXPECT_EQ(loop(stream), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  cudaStreamDestroy(stream);
}

}  // namespace telar::test
