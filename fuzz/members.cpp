#include "members_input.h"

// Messages of a job's members to its coordinator, and the coordinator's decisions.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  telar::fuzz::hear({data, size});
  return 0;
}
