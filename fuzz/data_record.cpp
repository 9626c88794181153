#include "run_files_input.h"

// The data of a run, data.json.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  telar::fuzz::read_data_record({data, size});
  return 0;
}
