#include "members_input.h"

// What members of a job say to its coordinator, and what it decides.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  telar::fuzz::hear({data, size});
  return 0;
}
