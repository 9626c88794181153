#include <fmt/format.h>
#include <fmt/ranges.h>
#include <omp.h>
#include <sched.h>

#include <algorithm>
#include <cstring>

#include "telar/core/buffer.h"
#include "telar/core/error.h"
#include "telar/device/cpu/executable.h"
#include "telar/device/cpu/lowering.h"
#include "telar/device/cpu/processor_support.h"
#include "telar/device/cpu/team.h"
#include "telar/device/cpu/updater.h"

namespace telar {

namespace {

class HostMemory final : public Memory {
 public:
  explicit HostMemory(size_t bytes) : Memory(nullptr, bytes), buffer_(bytes) { data_ = buffer_.data(); }

 private:
  Buffer buffer_;
};

/// A copy that was complete when it was created.
class NothingPending final : public PendingCopy {
 public:
  bool done() const override { return true; }
  void wait() const override {}
};

bool computes_in_bf16(const Graph& graph) {
  const auto& values = graph.values();
  return std::any_of(values.begin(), values.end(),
                     [](const Value& value) { return value.type.dtype == DType::bf16; });
}

class CpuDevice final : public Device {
 public:
  CpuDevice(int threads, std::vector<int> cores) : threads_(threads), cores_(std::move(cores)) {
    // oneDNN's kernels wait in barriers for the requested number of threads. With fewer threads they would
    // wait forever.
    if (threads > omp_get_thread_limit()) {
      throw user_error("{} threads are requested, but OMP_THREAD_LIMIT in the environment allows {}", threads,
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
    cpu::Team::end();  // first: a worker that gives its core away sets this thread's affinity for a moment
    cpu_set_t set;
    CPU_ZERO(&set);
    for (const int core : cores_) CPU_SET(static_cast<size_t>(core), &set);
    sched_setaffinity(0, sizeof(set), &set);  // only a hint: if a container forbids it, the run continues
  }

  std::unique_ptr<Executable> compile(const Graph& graph, const CompileOptions& options) const override {
    if (const std::string missing = computes_in_bf16(graph) ? cpu::bf16_missing() : ""; !missing.empty())
      throw user_error("{}", missing);
    return std::make_unique<cpu::CpuExecutable>(graph, options);
  }

  std::unique_ptr<Updater> compile_update(const Graph& update, const ArenaLayout& arena) const override {
    return std::make_unique<cpu::CpuUpdater>(update, arena);
  }

  std::string memory_name() const override { return "host"; }
  TensorLayout plain_layout(const Shape& shape) const override {
    return cpu::make_layout(cpu::plain(DType::f32, shape));
  }
  std::string packed(const TensorLayout& layout) const override {
    const dnnl_memory_desc_t& desc = cpu::native_desc(layout).data;
    return {reinterpret_cast<const char*>(&desc), sizeof desc};
  }
  TensorLayout unpacked(const std::string& bytes) const override {
    dnnl_memory_desc_t desc;
    if (bytes.size() != sizeof desc)
      throw run_error("a layout has {} bytes, not {}: another version of oneDNN has written it", bytes.size(),
                      sizeof desc);
    std::memcpy(&desc, bytes.data(), sizeof desc);
    return cpu::make_layout(cpu::Desc(desc));
  }
  void copy_out(const std::byte* memory, std::span<std::byte> host) const override {
    std::copy_n(memory, host.size(), host.data());
  }
  void copy_in(std::span<const std::byte> host, std::byte* memory) const override {
    std::copy_n(host.data(), host.size(), memory);
  }

  std::unique_ptr<PendingCopy> start_copy_out(const std::byte* memory, std::span<std::byte> host,
                                              bool /*beside*/) const override {
    copy_out(memory, host);
    return std::make_unique<NothingPending>();
  }
  std::unique_ptr<PinnedHost> pin(std::span<std::byte> /*host*/) const override { return nullptr; }
  void zero(std::byte* memory, size_t bytes) const override { std::memset(memory, 0, bytes); }
  void add(std::byte* to, const std::byte* from, size_t count, float scale) const override {
    auto* sums = reinterpret_cast<float*>(to);
    const auto* values = reinterpret_cast<const float*>(from);
    for (size_t i = 0; i < count; ++i) sums[i] += scale * values[i];
  }

  void read(const TensorLayout& layout, const std::byte* memory, std::span<float> canonical) const override {
    const cpu::Desc& desc = cpu::native_desc(layout);
    if (desc == cpu::plain(DType::f32, layout.shape)) {
      std::memcpy(canonical.data(), memory, canonical.size_bytes());
      return;
    }
    const cpu::OnTeam on_team;
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
    const cpu::OnTeam on_team;
    dnnl::memory from(cpu::plain(DType::f32, layout.shape), cpu::engine(),
                      const_cast<float*>(canonical.data()));
    dnnl::memory to(cpu::native_desc(layout), cpu::engine(), memory);
    dnnl::stream stream(cpu::engine());
    std::memset(memory, 0, layout.bytes);
    dnnl::reorder(from, to).execute(stream, from, to);
  }

 private:
  std::unique_ptr<Memory> make_memory(size_t bytes, const std::string& /*what*/) const override {
    return std::make_unique<HostMemory>(bytes);
  }

  int threads_;
  std::vector<int> cores_;
};

}  // namespace

std::unique_ptr<Device> make_cpu_device(int threads, std::vector<int> cores) {
  if (threads < 1) throw user_error("a CPU device needs at least 1 thread, not {}", threads);
  return std::make_unique<CpuDevice>(threads, std::move(cores));
}

}  // namespace telar
