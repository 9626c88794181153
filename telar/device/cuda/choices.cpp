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

Choices::Choices(std::filesystem::path file) : file_(std::move(file)) { read(); }

void Choices::read() {
  std::ifstream file(file_);
  for (std::string line; std::getline(file, line) && !file.eof();) {  // the last line ends like the others
    const size_t tab = line.find('\t');
    if (tab != std::string::npos) known_.emplace(line.substr(0, tab), line.substr(tab + 1));
  }
}

std::optional<std::string> Choices::known(const std::string& what) const {
  const auto found = known_.find(what);
  return found == known_.end() ? std::nullopt : std::optional(found->second);
}

std::string Choices::keep(const std::string& what, const std::string& algorithm) {
  std::error_code ignored;  // opening the file tells
  std::filesystem::create_directories(file_.parent_path(), ignored);
  const int file = ::open(file_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
  if (file >= 0) {
    // One call, so that lines of several processes do not mix.
    const std::string line = what + "\t" + algorithm + "\n";
    [[maybe_unused]] const ssize_t written = ::write(file, line.data(), line.size());
    ::close(file);
    read();
  }
  return known_.emplace(what, algorithm).first->second;
}

std::filesystem::path choices_file(const std::string& gpu) {
  int driver = 0;
  cudaDriverGetVersion(&driver);
  std::string name = fmt::format("{}, driver {}, cuBLASLt {}, cuDNN {}", gpu, driver, cublasLtGetVersion(),
                                 cudnnGetVersion());
  std::replace_if(
      name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) == 0 && c != ' ' && c != ','; },
      '-');
  return cache_folder() / "algorithms" / (name + ".txt");
}

}  // namespace telar::cuda
