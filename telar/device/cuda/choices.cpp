#include "telar/device/cuda/choices.h"

#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <cudnn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <fstream>

#include "telar/core/cache_folder.h"

namespace telar::cuda {

namespace {

/// Whether the file ends with a truncated line.
bool is_cut_off(int file) {
  char last = '\n';
  const off_t end = ::lseek(file, 0, SEEK_END);
  return end > 0 && ::pread(file, &last, 1, end - 1) == 1 && last != '\n';
}

}  // namespace

Choices::Choices(std::filesystem::path file) : file_(std::move(file)) { read(); }

void Choices::read() {
  std::ifstream file(file_);
  for (std::string line;
       std::getline(file, line) && !file.eof();) {  // only complete lines end with a line feed
    const size_t tab = line.find('\t');
    if (tab != std::string::npos) add(line.substr(0, tab), line.substr(tab + 1));
  }
}

void Choices::add(const std::string& what, const std::string& algorithm) {
  std::vector<std::string>& known = known_[what];
  if (std::find(known.begin(), known.end(), algorithm) == known.end()) known.push_back(algorithm);
}

std::vector<std::string> Choices::known(const std::string& what) const {
  const auto found = known_.find(what);
  return found == known_.end() ? std::vector<std::string>() : found->second;
}

void Choices::keep(const std::string& what, const std::string& algorithm) {
  std::error_code ignored;  // opening the file reports errors
  std::filesystem::create_directories(file_.parent_path(), ignored);
  const int file = ::open(file_.c_str(), O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
  if (file >= 0) {
    // One call, so that lines of different processes do not mix.
    const std::string line = (is_cut_off(file) ? " (cut off)\n" : "") + what + "\t" + algorithm + "\n";
    const ssize_t written = ::write(file, line.data(), line.size());
    ::close(file);
    if (written == static_cast<ssize_t>(line.size())) read();
  }
  add(what, algorithm);
}

std::filesystem::path choices_file(const std::string& gpu) {
  int driver = 0;
  cudaDriverGetVersion(&driver);
  constexpr int kMeasuring = 2;  // increase it when algorithms are measured or named differently
  std::string name = fmt::format("{}, driver {}, cuBLASLt {}, cuDNN {}, measuring {}", gpu, driver,
                                 cublasLtGetVersion(), cudnnGetVersion(), kMeasuring);
  std::replace_if(
      name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) == 0 && c != ' ' && c != ','; },
      '-');
  return cache_folder() / "algorithms" / (name + ".txt");
}

}  // namespace telar::cuda
