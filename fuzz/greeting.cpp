#include "greeting_input.h"

// The first bytes of strangers: the only input that is read before a token.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  telar::fuzz::greet({data, size});
  return 0;
}
