#include "store_input.h"

// The frames of a member, which a parameter server reads from the network and carries out.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    telar::fuzz::serve_frames({data, size});
  } catch (const telar::Error&) {
    // Throwing Error is the correct response to a bad frame.
  }
  return 0;
}
