#include "support/paths.h"

#include <cstdlib>

namespace telar::test {

std::string fixtures() {
  const char* carried =
      std::getenv("TELAR_TEST_FIXTURES");  // NOLINT(concurrency-mt-unsafe): no thread sets it
  return carried != nullptr ? carried : TELAR_SOURCES "/tests/fixtures";
}
std::string weave_corpus() { return TELAR_SOURCES "/tests/weave/corpus"; }
std::string fuzz_corpus() { return TELAR_SOURCES "/fuzz/corpus"; }
std::string scripts() { return TELAR_SOURCES "/scripts"; }
std::string telar_program() { return TELAR_CLI; }
std::string cuda_folder() { return TELAR_CUDA_FOLDER; }
std::string fake_cuda_folder() { return TELAR_FAKE_CUDA_FOLDER; }
std::string fake_nvml() { return TELAR_FAKE_NVML; }

}  // namespace telar::test
