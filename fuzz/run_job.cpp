#include "run_files_input.h"

// The job of a run, job.yaml, and its comparison with another job.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  telar::fuzz::read_run_job({data, size});
  return 0;
}
