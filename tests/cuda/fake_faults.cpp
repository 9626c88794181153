// Faults of our own kernels, for rehearsals of tests/gpu/folder/check. Environment of the stand-ins alone:
//
//   TELAR_FAKE_KERNEL=wrong:NAME    kernels whose name contains NAME do nothing
//   TELAR_FAKE_KERNEL=hang:NAME     they never end
//   TELAR_GPU_LAUNCHES=FILE         gets the name of each kernel that starts, as from bench/gpu_activity.cpp
#include <cxxabi.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "cuda/fakes.h"

namespace telar::test {

namespace {

/// The function that enqueues the work, with its template arguments.
std::string name_of(const std::function<void()>& work) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> name(
      abi::__cxa_demangle(work.target_type().name(), nullptr, nullptr, &status), &std::free);
  return status == 0 ? name.get() : work.target_type().name();
}

void note_launch(const char* path, const std::string& name) {
  std::FILE* file = std::fopen(path, "a");
  if (file == nullptr) return std::perror(path);
  std::fprintf(file, "%s\n", name.c_str());
  std::fclose(file);
}

}  // namespace

std::function<void()> with_faults(std::function<void()> work) {
  // NOLINTBEGIN(concurrency-mt-unsafe): no thread sets them
  static const char* const fault = std::getenv("TELAR_FAKE_KERNEL");
  static const char* const launches = std::getenv("TELAR_GPU_LAUNCHES");
  // NOLINTEND(concurrency-mt-unsafe)
  if (fault == nullptr && launches == nullptr) return work;
  std::string name = name_of(work);
  if (name.find("telar::cuda::") == std::string::npos && name.find("Matmul") == std::string::npos)
    return work;
  const std::string_view wanted = fault != nullptr ? fault : "";
  const std::string_view which = wanted.substr(wanted.find(':') + 1);
  const bool chosen = fault != nullptr && name.find(which) != std::string::npos;
  return [=, hangs = chosen && wanted.starts_with("hang:"), wrong = chosen && wanted.starts_with("wrong:")] {
    if (launches != nullptr) note_launch(launches, name);
    while (hangs) std::this_thread::sleep_for(std::chrono::seconds(1));
    if (!wrong) work();
  };
}

}  // namespace telar::test
