#include "store_memory_input.h"

// The requests of a member that shares memory with a parameter server.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    telar::fuzz::serve_requests({data, size});
  } catch (const telar::Error&) {
    // Throwing Error is the correct response to a bad request.
  }
  return 0;
}
