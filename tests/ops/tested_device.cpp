#include <cstdlib>

#include "ops/run_graph.h"
#include "telar/device/cuda.h"

namespace telar::test {

/// With TELAR_TEST_DEVICE=cuda:0 in the environment, the operations are tested on that GPU.
std::unique_ptr<Device> tested_device(int threads) {
  const char* named = std::getenv("TELAR_TEST_DEVICE");
  const auto gpu = named == nullptr ? std::nullopt : cuda_number(named);
  return gpu ? make_cuda_device(*gpu) : make_cpu_device(threads, {});
}

}  // namespace telar::test
