#include "run_files_input.h"

// The description of a sample in a run, samples.json.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  telar::fuzz::read_samples({data, size});
  return 0;
}
