#include <fmt/format.h>
#include <fmt/ranges.h>
#include <omp.h>
#include <sched.h>

#include <cstring>

#include "telar/core/error.h"
#include "telar/device/cpu/executable.h"
#include "telar/device/cpu/updater.h"

namespace telar {

namespace {

class CpuDevice final : public Device {
 public:
  CpuDevice(int threads, std::vector<int> cores) : threads_(threads), cores_(std::move(cores)) {
    // oneDNN's kernels wait in barriers for as many threads as were asked for: with fewer they would wait for ever.
    if (threads > omp_get_thread_limit()) {
      throw user_error("{} threads are asked for, but OMP_THREAD_LIMIT in the environment allows {}", threads,
                       omp_get_thread_limit());
    }
  }

  std::string name() const override {
    if (cores_.empty()) return fmt::format("cpu ({} threads)", threads_);
    return fmt::format("cpu:{}", fmt::join(cores_, ","));
  }

  void enter() const override {
    omp_set_dynamic(0);  // see the constructor: OMP_DYNAMIC would make teams smaller, too
    omp_set_num_threads(threads_);
    if (cores_.empty()) return;
    cpu_set_t set;
    CPU_ZERO(&set);
    for (const int core : cores_) CPU_SET(static_cast<size_t>(core), &set);
    sched_setaffinity(0, sizeof(set), &set);  // a hint: a container may forbid it, and the run goes on
  }

  std::unique_ptr<Executable> compile(const Graph& graph, const CompileOptions& options) const override {
    return std::make_unique<cpu::CpuExecutable>(graph, options);
  }

  std::unique_ptr<Updater> compile_update(const Graph& update, const ArenaLayout& arena) const override {
    return std::make_unique<cpu::CpuUpdater>(update, arena);
  }

  void read(const TensorLayout& layout, const std::byte* memory, std::span<float> canonical) const override {
    const cpu::Desc& desc = cpu::native_desc(layout);
    if (desc == cpu::plain(DType::f32, layout.shape)) {
      std::memcpy(canonical.data(), memory, canonical.size_bytes());
      return;
    }
    dnnl::memory from(desc, cpu::engine(), const_cast<std::byte*>(memory));  // only read
    dnnl::memory to(cpu::plain(DType::f32, layout.shape), cpu::engine(), canonical.data());
    dnnl::stream stream(cpu::engine());
    dnnl::reorder(from, to).execute(stream, from, to);
  }

  void write(const TensorLayout& layout, std::span<const float> canonical, std::byte* memory) const override {
    if (cpu::native_desc(layout) == cpu::plain(DType::f32, layout.shape)) {
      std::memcpy(memory, canonical.data(), canonical.size_bytes());
      return;
    }
    dnnl::memory from(cpu::plain(DType::f32, layout.shape), cpu::engine(),
                      const_cast<float*>(canonical.data()));
    dnnl::memory to(cpu::native_desc(layout), cpu::engine(), memory);
    dnnl::stream stream(cpu::engine());
    std::memset(memory, 0, layout.bytes);
    dnnl::reorder(from, to).execute(stream, from, to);
  }

 private:
  int threads_;
  std::vector<int> cores_;
};

}  // namespace

std::unique_ptr<Device> make_cpu_device(int threads, std::vector<int> cores) {
  if (threads < 1) throw user_error("a device needs at least 1 thread, not {}", threads);
  return std::make_unique<CpuDevice>(threads, std::move(cores));
}

}  // namespace telar
