#include "run_files_input.h"

// The state of a checkpoint, state.json.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  telar::fuzz::read_state({data, size});
  return 0;
}
