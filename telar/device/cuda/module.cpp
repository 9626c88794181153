// What the shared module telar-cuda exports.
#include <fmt/format.h>

#include "telar/core/error.h"
#include "telar/device/cuda.h"
#include "telar/device/cuda/check.h"
#include "telar/device/cuda/executable.h"

namespace telar::cuda {

namespace {

class CudaDevice final : public Device {
 public:
  explicit CudaDevice(int number) : gpu_(std::make_shared<Gpu>(number)) {}

  std::string name() const override { return gpu_->name(); }
  void enter() const override { gpu_->use(); }
  void synchronise() const override {
    gpu_->use();
    gpu_->wait();
  }

  std::unique_ptr<Executable> compile(const Graph& graph, const CompileOptions& /*options*/) const override {
    return std::make_unique<CudaExecutable>(graph, gpu_);
  }

  // Nothing that has parameters compiles yet, so that nobody gets here.
  std::unique_ptr<Updater> compile_update(const Graph& /*update*/,
                                          const ArenaLayout& /*arena*/) const override {
    throw run_error("a GPU cannot update parameters yet; train on processors");
  }
  void read(const TensorLayout& /*layout*/, const std::byte* /*memory*/,
            std::span<float> /*canonical*/) const override {
    throw run_error("a GPU cannot hold parameters yet; train on processors");
  }
  void write(const TensorLayout& /*layout*/, std::span<const float> /*canonical*/,
             std::byte* /*memory*/) const override {
    throw run_error("a GPU cannot hold parameters yet; train on processors");
  }

 private:
  std::shared_ptr<Gpu> gpu_;
};

std::unique_ptr<Device> make_device(int number) { return std::make_unique<CudaDevice>(number); }

CudaGpu describe(int number) {
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, number), "looking at a GPU");
  return {properties.name, properties.totalGlobalMem,
          fmt::format("{}.{}", properties.major, properties.minor), properties.multiProcessorCount};
}

CudaGpus find_gpus() {
  const Count count = count_gpus();
  CudaGpus found;
  found.not_found = count.none;
  int driver = 0;
  if (cudaDriverGetVersion(&driver) == cudaSuccess && driver > 0)
    found.driver = fmt::format("{}.{}", driver / 1000, driver % 1000 / 10);
  try {
    for (int number = 0; number < count.gpus; ++number) found.gpus.push_back(describe(number));
  } catch (const Error& error) {
    found = {{}, found.driver, error.what()};
  }
  return found;
}

}  // namespace

}  // namespace telar::cuda

extern "C" __attribute__((visibility("default"))) void telar_cuda(telar::cuda::Functions& functions) {
  functions = {telar::cuda::make_device, telar::cuda::find_gpus};
}
