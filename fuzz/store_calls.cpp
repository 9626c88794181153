#include "store_calls_input.h"

// The rare calls to a parameter server, the opening of a stream, and what the server says that it holds.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  telar::fuzz::call_store({data, size});
  return 0;
}
