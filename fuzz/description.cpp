#include "description_input.h"

// The description of a job: the coordinator sends it to workers.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  telar::fuzz::read_description({data, size});
  return 0;
}
