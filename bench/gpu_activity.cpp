// What a GPU did at the end of a program: its kernels, copies and fills, and how long it did nothing between
// them. A library that CUDA itself loads:
//
//   CUDA_INJECTION64_PATH=$PWD/gpu_activity.so TELAR_GPU_ACTIVITY=activity.json PROGRAM
//
// When the program ends, the file has the account of the last TELAR_GPU_ACTIVITY_SECONDS (0.2) of the GPU's
// time. CUPTI reads the times on the GPU, also of kernels within a CUDA graph.
//
// With TELAR_GPU_LAUNCHES=FILE, the file has the name of each kernel before it starts, but for those within a
// CUDA graph. CUDA_LAUNCH_BLOCKING=1 makes the host wait for each: the last one is the one that never ends.
#include <cupti.h>
#include <cxxabi.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace {

struct Work {
  uint64_t start, end;  ///< nanoseconds
  std::string name;
};

std::mutex mutex;
std::vector<Work>& works() {
  static std::vector<Work> all;
  return all;
}

constexpr size_t kBufferBytes = size_t{8} << 20;

void request_buffer(uint8_t** buffer, size_t* size, size_t* most_records) {
  *buffer = static_cast<uint8_t*>(std::aligned_alloc(8, kBufferBytes));
  *size = kBufferBytes;
  *most_records = 0;
}

void take_buffer(CUcontext, uint32_t, uint8_t* buffer, size_t, size_t valid) {
  const std::lock_guard lock(mutex);
  CUpti_Activity* record = nullptr;
  while (cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS) {
    switch (record->kind) {
      case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: {
        const auto* kernel = reinterpret_cast<const CUpti_ActivityKernel10*>(record);
        works().push_back({kernel->start, kernel->end, kernel->name});
        break;
      }
      case CUPTI_ACTIVITY_KIND_MEMCPY: {
        const auto* copy = reinterpret_cast<const CUpti_ActivityMemcpy6*>(record);
        works().push_back({copy->start, copy->end, "copy"});
        break;
      }
      case CUPTI_ACTIVITY_KIND_MEMSET: {
        const auto* fill = reinterpret_cast<const CUpti_ActivityMemset4*>(record);
        works().push_back({fill->start, fill->end, "fill"});
        break;
      }
      default: break;
    }
  }
  std::free(buffer);
}

void write_account() {
  cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
  const std::lock_guard lock(mutex);
  const char* path = std::getenv("TELAR_GPU_ACTIVITY");
  const char* seconds = std::getenv("TELAR_GPU_ACTIVITY_SECONDS");
  if (path == nullptr || works().empty()) return;
  std::sort(works().begin(), works().end(), [](const Work& a, const Work& b) { return a.start < b.start; });
  const uint64_t end = works().back().end;
  const auto span = static_cast<uint64_t>(1e9 * (seconds != nullptr ? std::atof(seconds) : 0.2));
  const uint64_t from = end > span ? end - span : 0;
  struct Sum {
    uint64_t count = 0, nanoseconds = 0;
  };
  std::map<std::string, Sum> sums;
  uint64_t first = 0;
  uint64_t reached = 0;
  uint64_t idle = 0;
  std::vector<uint64_t> gaps;
  for (const Work& work : works()) {
    if (work.start < from) continue;
    if (reached == 0) first = reached = work.start;
    if (work.start > reached) {
      idle += work.start - reached;
      gaps.push_back(work.start - reached);
    }
    reached = std::max(reached, work.end);
    sums[work.name].count += 1;
    sums[work.name].nanoseconds += work.end - work.start;
  }
  std::sort(gaps.begin(), gaps.end());
  nlohmann::ordered_json account{
      {"span_ms", 1e-6 * static_cast<double>(reached - first)},
      {"idle", reached > first ? static_cast<double>(idle) / static_cast<double>(reached - first) : 0},
      {"gaps", gaps.size()},
      {"median_gap_us", gaps.empty() ? 0 : 1e-3 * static_cast<double>(gaps[gaps.size() / 2])}};
  std::vector<std::pair<std::string, Sum>> ordered(sums.begin(), sums.end());
  std::sort(ordered.begin(), ordered.end(),
            [](const auto& a, const auto& b) { return a.second.nanoseconds > b.second.nanoseconds; });
  for (const auto& [name, sum] : ordered)
    account["work"].push_back(
        {{"name", name},
         {"count", sum.count},
         {"ms", 1e-6 * static_cast<double>(sum.nanoseconds)},
         {"mean_us", 1e-3 * static_cast<double>(sum.nanoseconds) / static_cast<double>(sum.count)}});
  std::FILE* file = std::fopen(path, "w");
  if (file == nullptr) return std::perror(path);
  std::fputs(account.dump(1).c_str(), file);
  std::fclose(file);
}

void note_launch(void* file, CUpti_CallbackDomain, CUpti_CallbackId, const void* data) {
  const auto* call = static_cast<const CUpti_CallbackData*>(data);
  if (call->callbackSite != CUPTI_API_ENTER || call->symbolName == nullptr) return;
  char* name = abi::__cxa_demangle(call->symbolName, nullptr, nullptr, nullptr);
  const std::lock_guard lock(mutex);
  std::fprintf(static_cast<std::FILE*>(file), "%s\n", name != nullptr ? name : call->symbolName);
  std::fflush(static_cast<std::FILE*>(file));
  std::free(name);
}

void note_launches(const char* path) {
  std::FILE* file = std::fopen(path, "w");  // for the rest of the process
  if (file == nullptr) return std::perror(path);
  CUpti_SubscriberHandle subscriber{};
  bool noted = cuptiSubscribe(&subscriber, note_launch, file) == CUPTI_SUCCESS;
  for (const auto call :
       {CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel, CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel_ptsz,
        CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx, CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx_ptsz})
    noted = noted && cuptiEnableCallback(1, subscriber, CUPTI_CB_DOMAIN_DRIVER_API, call) == CUPTI_SUCCESS;
  if (!noted) std::fputs("gpu_activity: CUPTI refuses to note launches\n", stderr);
}

}  // namespace

/// Called by CUDA's driver when it starts.
extern "C" __attribute__((visibility("default"))) int InitializeInjection() {
  works();  // is destroyed after the account is written
  if (const char* path = std::getenv("TELAR_GPU_LAUNCHES")) note_launches(path);
  cuptiActivityRegisterCallbacks(request_buffer, take_buffer);
  for (const auto kind :
       {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMCPY, CUPTI_ACTIVITY_KIND_MEMSET})
    if (cuptiActivityEnable(kind) != CUPTI_SUCCESS)
      std::fputs("gpu_activity: CUPTI refuses to record\n", stderr);
  std::atexit(write_account);
  return 1;
}
